// Doubles the next policy's cooldown with each attempt that the message has used up, to a day at most. The host doubles
// the wait after an attempt that failed to re-emit; this doubles it for messages that are re-emitted and die again.

import * as fallback from "reprieve:policy/recovery@0.1.0";

const A_DAY = 24 * 60 * 60 * 1000;

export const recovery = {
  getPolicy(entry) {
    const policy = fallback.getPolicy(entry);
    const grown = policy.cooldown * 2 ** Math.max(entry.recoveryAttempts - 1, 0);
    return { ...policy, name: `${policy.name}Exponential`, cooldown: Math.max(policy.cooldown, Math.min(grown, A_DAY)) };
  },
  getStreamMode: fallback.getStreamMode,
  shouldRecover: fallback.shouldRecover,
};
