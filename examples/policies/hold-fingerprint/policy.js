// Holds every message that died of a known fault, by the fingerprint of its error, while that fault is being mended. A
// new build gives each of them its one attempt, as the host does for all held rows; take the fingerprint off the list
// when that build is out. `reprieve stats` lists fingerprints by their number.
//
// Settings: {"fingerprints": ["3f2a9c0d11e84b76"]}

import * as fallback from "reprieve:policy/recovery@0.1.0";
import * as host from "reprieve:policy/host@0.1.0";

const HELD = {
  name: "KnownFault",
  maxRecoveryAttempts: 0,
  cooldown: 0,
  holdForReviewAfterExhaustion: true,
  delayFirstAttempt: false,
};

function isKnown(entry) {
  const { fingerprints = [] } = JSON.parse(host.settings());
  return fingerprints.includes(entry.errorFingerprint);
}

export const recovery = {
  getPolicy: (entry) => (isKnown(entry) ? HELD : fallback.getPolicy(entry)),
  getStreamMode: fallback.getStreamMode,
  shouldRecover: fallback.shouldRecover,
};

export const settings = {
  validate(text) {
    const { fingerprints = [], ...others } = JSON.parse(text);
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) {
      throw `${unknown}: unknown, the only key is fingerprints`;
    }
    if (!Array.isArray(fingerprints) || !fingerprints.every((one) => typeof one === "string" && one !== "")) {
      throw "fingerprints: expected a list of texts";
    }
  },
};
