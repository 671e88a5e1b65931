// Inventory adjustments get five attempts, two hours apart, and end held. Every other question goes to the next policy
// of the chain, at its end the default matrix. What is held for review is never tried on its own.
//
// Answers may depend on the entry, the settings and the scan's time alone: there are no files, no network, and the clock
// traps; use host.now(). An uncaught exception fails the entry, and the host then sees only `unreachable`. Numbers are
// plain numbers, not BigInts; what is absent is null.

import * as fallback from "reprieve:policy/recovery@0.1.0";

const TWO_HOURS = 2 * 60 * 60 * 1000;

export const recovery = {
  getPolicy(entry) {
    if (!entry.messageType.includes("InventoryAdjust")) {
      return fallback.getPolicy(entry);
    }
    return {
      name: "InventorySpecific",
      maxRecoveryAttempts: 5,
      cooldown: TWO_HOURS,
      holdForReviewAfterExhaustion: true,
      delayFirstAttempt: false,
    };
  },

  getStreamMode(entry) {
    return entry.streamId === null ? "per-message" : "tail-aware";
  },

  shouldRecover(entry) {
    return entry.recoveryStatus !== "hold-for-review" && fallback.shouldRecover(entry);
  },
};
