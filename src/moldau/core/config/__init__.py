"""Settings: rows, values, checks. A broker setting is a field of `BrokerSettings`.

broker_alteration: broker settings that change while a broker runs (KIP-226)
broker_setting_rows: Kafka's broker settings that do not act here
broker_settings: `BrokerSettings`: all settings that act, as a frozen view
defaults_of_broker: broker settings that are defaults of topics and groups
describing: the answer to DescribeConfigs (KIP-133, 226)
group_setting_rows: Kafka's settings of groups and client metrics
group_settings: their values and checks
listeners: listeners and advertised addresses
log_directories: checks of `log.dirs` and `cordoned.log.dirs`
principal_rules: `ssl.principal.mapping.rules` (KIP-371)
properties: Java's .properties format
quorum_checks: checks of the quorum's settings at a start
quorum_voters: `controller.quorum.voters`
reference_page: writes docs/reference/settings.md
replicated: settings that only a cluster of several brokers needs
security_settings: security settings, a part of `BrokerSettings`
setting: one row: type, default, range, error text
tls_settings: `ssl.*` settings of a listener (KIP-103)
topic_setting_rows: Kafka's topic settings
topic_settings: the settings of a topic over the broker's defaults
"""
