"""A log after a stop or a crash: what is read, cut and reported.

cut: cuts a log at damage, and keeps the cut bytes
damage: damaged bytes and their error
inspection: reads a damaged sealed segment
recalled_batches: the last batches of producers, found again at a start
recalled_epochs: leader epochs, found again in batches
recovery: the start after a crash, and damage
replay: producer state, rebuilt from batches
rewriting: unflushed batches, written again after a failed flush
"""
