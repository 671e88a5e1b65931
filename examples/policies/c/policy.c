// Inventory adjustments get five attempts, two hours apart, and end held. Every other question goes to the next policy
// of the chain, at its end the default matrix. What is held for review is never tried on its own.
//
// Answers may depend on the entry, the settings and the scan's time alone: there are no files, no network and no clock;
// use reprieve_policy_host_now(). An instance answers for many entries, so an entry that was given is freed.

#include <string.h>

#include "policy_with_fallback.h"

typedef exports_reprieve_policy_recovery_dead_letter_t dead_letter;
typedef exports_reprieve_policy_recovery_recovery_policy_t recovery_policy;
typedef exports_reprieve_policy_recovery_stream_recovery_mode_t stream_recovery_mode;

static const uint64_t TWO_HOURS = 2 * 60 * 60 * 1000;

static bool contains(const policy_with_fallback_string_t *text, const char *part) {
    size_t length = strlen(part);
    for (size_t at = 0; at + length <= text->len; at++) {
        if (memcmp(text->ptr + at, part, length) == 0) {
            return true;
        }
    }
    return false;
}

void exports_reprieve_policy_recovery_get_policy(dead_letter *entry, recovery_policy *policy) {
    if (contains(&entry->message_type, "InventoryAdjust")) {
        policy_with_fallback_string_dup(&policy->name, "InventorySpecific");
        policy->max_recovery_attempts = 5;
        policy->cooldown = TWO_HOURS;
        policy->hold_for_review_after_exhaustion = true;
        policy->delay_first_attempt = false;
    } else {
        reprieve_policy_recovery_get_policy(entry, policy);
    }
    exports_reprieve_policy_recovery_dead_letter_free(entry);
}

stream_recovery_mode exports_reprieve_policy_recovery_get_stream_mode(dead_letter *entry) {
    bool has_stream = entry->stream_id.is_some;
    exports_reprieve_policy_recovery_dead_letter_free(entry);
    return has_stream ? REPRIEVE_POLICY_TYPES_STREAM_RECOVERY_MODE_TAIL_AWARE
                      : REPRIEVE_POLICY_TYPES_STREAM_RECOVERY_MODE_PER_MESSAGE;
}

bool exports_reprieve_policy_recovery_should_recover(dead_letter *entry) {
    bool is_held = entry->recovery_status == REPRIEVE_POLICY_TYPES_RECOVERY_STATUS_HOLD_FOR_REVIEW;
    bool recovers = !is_held && reprieve_policy_recovery_should_recover(entry);
    exports_reprieve_policy_recovery_dead_letter_free(entry);
    return recovers;
}
