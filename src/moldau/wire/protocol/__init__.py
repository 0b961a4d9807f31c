"""Kafka's protocol: messages, headers, codecs.

acl_words: words for parts of an ACL
acls: access control lists as values (KIP-11, 140, 290)
api_keys: APIs: keys, versions, classes
codec: messages to bytes and back, compiled at first use
consumer_protocol: subscriptions and assignments of consumer groups
decoder_source: generates a decoder
elsewhere: other leader or replica in answers (KIP-951, 392)
encoder_source: generates an encoder
envelopes: the content of Envelope (KIP-590)
error_codes: all error codes of a response
fast_fetch: Fetch for the hot path
fast_produce: Produce for the hot path
framing: frames: length and bytes
grouping: partitions grouped by topic
headers: request and response headers
jaas: the grammar of `sasl.jaas.config` (KIP-85)
messages/: one module for each family of APIs
oauth_settings: settings of OAUTHBEARER clients (KIP-768, 1139)
record_codec: records of internal topics
runtime: the functions that generated code calls
sasl_tokens: tokens of PLAIN, SCRAM and OAUTHBEARER
schema: declarations of messages
security_protocols: security protocols and loopback hosts
"""
