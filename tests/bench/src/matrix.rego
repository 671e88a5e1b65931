package matrix

rows := {
    "Throttled": {"name": "AggressiveRetry", "max": 3, "cooldown_ms": 1800000, "hold": false, "delay": false},
    "TransportException": {"name": "MediumRetry", "max": 3, "cooldown_ms": 3600000, "hold": false, "delay": false},
    "LeaseExpired": {"name": "AggressiveRetry", "max": 5, "cooldown_ms": 0, "hold": false, "delay": false},
    "MaxAttemptsExceeded": {"name": "ConservativeRetry", "max": 1, "cooldown_ms": 21600000, "hold": true, "delay": true},
    "EventStorageFailure": {"name": "HoldForReview", "max": 0, "cooldown_ms": 0, "hold": true, "delay": false},
    "ValidationError": {"name": "HoldForReview", "max": 0, "cooldown_ms": 0, "hold": true, "delay": false},
    "SerializationError": {"name": "HoldForReview", "max": 0, "cooldown_ms": 0, "hold": true, "delay": false},
    "TransportNotReady": {"name": "MediumRetry", "max": 3, "cooldown_ms": 1800000, "hold": false, "delay": false},
    "BrokerDeadLetter": {"name": "MediumRetry", "max": 3, "cooldown_ms": 3600000, "hold": true, "delay": false},
    "PoisonRedeliveryLoop": {"name": "HoldForReview", "max": 0, "cooldown_ms": 0, "hold": true, "delay": false},
}

unknown := {"name": "OneShotThenHold", "max": 1, "cooldown_ms": 3600000, "hold": true, "delay": false}

policy := object.get(rows, input.failure_reason, unknown)

default stream_mode := "per-message"

stream_mode := "tail-aware" if input.stream_id != null

default should_recover := false

should_recover if input.recovery_status in {"Pending", "Recovering"}

answers := {"policy": policy, "stream_mode": stream_mode, "should_recover": should_recover}
