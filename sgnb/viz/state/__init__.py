"""Pure reducers from events to the states that views show."""
