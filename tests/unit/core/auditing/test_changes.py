"""The audit log's lines for changes. Every changing API has its rows; none contains a secret."""

from __future__ import annotations

from typing import Any

from moldau.core.auditing.changes import Change, changes_of, is_change
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import acls, client_quotas, cluster, configs, scram, topics
from moldau.wire.protocol.messages import delegation_tokens as tokens

READING = ("DESCRIBE", "LIST", "FETCH", "FIND", "METADATA", "API_VERSIONS", "OFFSET_FETCH", "OFFSET_FOR")


def rows(key: ApiKey, request: Any, response: Any) -> list[Change]:
    return list(changes_of(key, request, response) or ())


def test_topics() -> None:
    request = topics.CreateTopicsRequest(
        topics=(topics.CreatableTopic("a", 3, 1, configs=(topics.CreatableTopicConfig("retention.ms", "1"),)),)
    )
    answer = topics.CreateTopicsResponse(topics=(topics.CreatableTopicResult("a", error_code=36),))
    detail = "partitions 3, replication factor 1, retention.ms"
    assert rows(ApiKey.CREATE_TOPICS, request, answer) == [Change("topic", "a", 36, detail)]


def test_what_is_only_validated_is_no_change() -> None:
    request = topics.CreateTopicsRequest(topics=(topics.CreatableTopic("a", 1, 1),), validate_only=True)
    answer = topics.CreateTopicsResponse(topics=(topics.CreatableTopicResult("a"),))
    assert rows(ApiKey.CREATE_TOPICS, request, answer) == []


def test_settings_are_named_without_their_values() -> None:
    config = configs.IncrementalAlterableConfig("listener.name.x.ssl.keystore.key", 0, "SECRET")
    resource = configs.IncrementalAlterConfigsResource(4, "1", (config,))
    request = configs.IncrementalAlterConfigsRequest((resource,))
    answer = configs.IncrementalAlterConfigsResponse(
        responses=(configs.IncrementalAlterConfigsResourceResponse(0, None, 4, "1"),)
    )
    assert rows(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, answer) == [
        Change("broker", "1", 0, "set listener.name.x.ssl.keystore.key")
    ]


def test_users_are_named_without_salt_and_password() -> None:
    request = scram.AlterUserScramCredentialsRequest(
        (scram.ScramCredentialDeletion("ann", 2),),
        (scram.ScramCredentialUpsertion("ben", 1, 8_192, b"SECRET", b"SECRET"),),
    )
    results = tuple(scram.AlterUserScramCredentialsResult(name) for name in ("ann", "ben"))
    found = rows(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, scram.AlterUserScramCredentialsResponse(0, results))
    assert found == [
        Change("user", "ann", 0, "delete SCRAM-SHA-512"),
        Change("user", "ben", 0, "set SCRAM-SHA-256, 8192 iterations"),
    ]


def test_acls_are_told_whole() -> None:
    request = acls.CreateAclsRequest((acls.AclCreation(2, "t", 4, "User:ann", "*", 3, 3),))
    answer = acls.CreateAclsResponse(results=(acls.AclCreationResult(),))
    assert rows(ApiKey.CREATE_ACLS, request, answer) == [
        Change("topic", "t", 0, "allow read to User:ann from *, prefixed")
    ]
    matching = acls.DeleteAclsMatchingAcl(0, None, 2, "t", 3, "User:ann", "*", 3, 2)
    deletion = acls.DeleteAclsRequest((acls.DeleteAclsFilter(1, None, 1, None, None, 1, 1),) * 2)
    results = (acls.DeleteAclsFilterResult(0, None, (matching,)), acls.DeleteAclsFilterResult())
    assert rows(ApiKey.DELETE_ACLS, deletion, acls.DeleteAclsResponse(0, results)) == [
        Change("topic", "t", 0, "deny read to User:ann from *, literal"),
        Change("any", "", 0, "filter, no ACL: principal None, host None"),
    ]


def test_quotas_and_features() -> None:
    entity = (client_quotas.AlterQuotaEntity("user", None), client_quotas.AlterQuotaEntity("client-id", "app"))
    entry = client_quotas.AlterQuotaEntry(entity, (client_quotas.AlterQuotaOperation("producer_byte_rate", 1024.0),))
    answer = client_quotas.AlterClientQuotasResponse(0, (client_quotas.AlterQuotaEntryResult(),))
    assert rows(ApiKey.ALTER_CLIENT_QUOTAS, client_quotas.AlterClientQuotasRequest((entry,)), answer) == [
        Change("quota", "user <default>, client-id app", 0, "set producer_byte_rate=1024")
    ]
    update = cluster.UpdateFeaturesRequest(feature_updates=(cluster.FeatureUpdateKey("metadata.version", 29),))
    assert rows(ApiKey.UPDATE_FEATURES, update, cluster.UpdateFeaturesResponse(0, 42)) == [
        Change("feature", "metadata.version", 42, "level 29")
    ]


def test_tokens_are_named_by_their_ids() -> None:
    request = tokens.CreateDelegationTokenRequest(
        renewers=tuple(tokens.CreatableRenewers("User", name) for name in ("ben", "cy"))
    )
    created = tokens.CreateDelegationTokenResponse(0, "User", "ann", "User", "dan", 1, 2, 3, "id", b"secret")
    assert rows(ApiKey.CREATE_DELEGATION_TOKEN, request, created) == [
        Change("delegation token", "id", 0, "owner User:ann, renewers User:ben, User:cy")
    ]
    renewal, renewed = tokens.RenewDelegationTokenRequest(b"secret", 9), tokens.RenewDelegationTokenResponse(0, 9)
    assert list(changes_of(ApiKey.RENEW_DELEGATION_TOKEN, renewal, renewed, "id") or ()) == [
        Change("delegation token", "id", 0, "renew, expires at 9")
    ]
    for period_ms, error_code, told in ((-1, 0, "remove"), (4, 63, "expires at 5")):
        end = tokens.ExpireDelegationTokenRequest(b"secret", period_ms)
        ended = tokens.ExpireDelegationTokenResponse(error_code, 5)
        assert list(changes_of(ApiKey.EXPIRE_DELEGATION_TOKEN, end, ended, "id") or ()) == [
            Change("delegation token", "id", error_code, told)
        ]


def test_every_api_of_administration_that_changes_something_has_rows() -> None:
    from moldau.shell.administration.table import handler_specs

    changing = {
        spec.name for spec in handler_specs().values() if not spec.name.startswith((*READING, "SASL"))
    }  # fmt: skip
    assert {name for name in changing if not is_change(ApiKey[name])} == set()
