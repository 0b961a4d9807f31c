"""The logs of the broker: flushes, cleaning, checkpoints, moves.

checkpoints: writes offset checkpoints
cleaner: chooses a log, and swaps the cleaned segments in
cleaner_child: the child process of a cleaning
cleaner_process: one cleaning, in a child or here with pauses
flusher: groups fsyncs
full_directories: leaderships of full directories
housekeeping: periodic retention, flushes and deletions
log_settings: settings of topics as `LogSettings`
moves: moves between log directories (KIP-113)
offline_directories: takes partitions in failed directories offline
"""
