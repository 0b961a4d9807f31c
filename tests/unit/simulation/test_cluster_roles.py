"""The roles of the nodes of a simulated cluster."""

from __future__ import annotations

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.simulation.cluster.settings import REPLICAS, brokers_of, controllers_of, node_ids_of, roles_of, settings_of


def test_clusters_have_enough_brokers_and_a_majority_without_one_controller():
    kinds = set()
    for seed in range(1, 200):
        brokers, controllers = brokers_of(seed), controllers_of(seed)
        assert len(brokers) >= REPLICAS
        assert len(controllers) >= 3
        assert sorted({*brokers, *controllers}) == list(node_ids_of(seed))
        kinds |= set(roles_of(seed).values())
    assert kinds == {"broker", "controller", "broker,controller"}


def test_the_settings_of_each_node_are_those_of_its_roles():
    seed = next(seed for seed in range(1, 200) if "controller" in roles_of(seed).values())
    for node_id, roles in roles_of(seed).items():
        settings = parse_broker_settings(settings_of(seed, node_id))
        assert settings.is_broker == ("broker" in roles)
        assert bool(settings.controller_endpoints) == ("controller" in roles)
