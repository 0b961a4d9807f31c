"""The metadata log as values: records, images, snapshots, feature levels.

batches: metadata records to record batches and back (KIP-631)
features: feature levels: defaults, registration, what clients see
fold: folds records into an image and a delta
image: the image: brokers, topics, partitions, settings, features
image_records: an image as records
login_records: SCRAM credentials and delegation tokens (KIP-631, 900)
random_uuid: random uuids in Kafka's form
releases: levels of `metadata.version` and of other features
snapshot: snapshots as bytes (KIP-630, 853)
"""
