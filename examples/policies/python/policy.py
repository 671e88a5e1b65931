"""Inventory adjustments get five attempts, two hours apart, and end held. Every other question goes to the next policy
of the chain, at its end the default matrix. What is held for review is never tried on its own.

Answers may depend on the entry, the settings and the scan's time alone: there are no files, no network, no clock, and
print() traps; use host.log(). An uncaught exception fails the entry, and the host then sees only `unreachable`.
"""

from wit_world.imports import recovery as fallback
from wit_world.imports.types import RecoveryPolicy, RecoveryStatus, StreamRecoveryMode

TWO_HOURS = 2 * 60 * 60 * 1000


class Recovery:
    def get_policy(self, entry):
        if "InventoryAdjust" not in entry.message_type:
            return fallback.get_policy(entry)
        return RecoveryPolicy(
            name="InventorySpecific",
            max_recovery_attempts=5,
            cooldown=TWO_HOURS,
            hold_for_review_after_exhaustion=True,
            delay_first_attempt=False,
        )

    def get_stream_mode(self, entry):
        return StreamRecoveryMode.PER_MESSAGE if entry.stream_id is None else StreamRecoveryMode.TAIL_AWARE

    def should_recover(self, entry):
        held = entry.recovery_status == RecoveryStatus.HOLD_FOR_REVIEW
        return not held and fallback.should_recover(entry)
