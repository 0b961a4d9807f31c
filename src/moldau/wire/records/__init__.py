"""Record batches and records.

batch: the header of a batch (KIP-98)
builder: batches from single records
compression: gzip, snappy, lz4, zstd with bounded expansion
control: control batches
crc: CRC-32C
record: single records of a batch
rewrite: checks and recompresses a batch
validate: checks of a produced batch
varint: zigzag varints
"""
