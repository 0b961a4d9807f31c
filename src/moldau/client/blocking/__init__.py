"""The client's decisions driven in the caller's thread, which waits for each answer."""
