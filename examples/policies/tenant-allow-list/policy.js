// Recovers the messages of some tenants by themselves, and holds those of all others until somebody has looked. The
// tenant is the member "tenant" of the message's metadata. What names no tenant, or has so much metadata that the host
// leaves it out, is held.
//
// Settings: {"tenants": ["acme", "globex"]}

import * as fallback from "reprieve:policy/recovery@0.1.0";
import * as host from "reprieve:policy/host@0.1.0";

const HELD = {
  name: "TenantNotAllowed",
  maxRecoveryAttempts: 0,
  cooldown: 0,
  holdForReviewAfterExhaustion: true,
  delayFirstAttempt: false,
};

function isAllowed(entry) {
  const { tenants = [] } = JSON.parse(host.settings());
  return tenants.includes(JSON.parse(entry.metadata).tenant);
}

export const recovery = {
  getPolicy: (entry) => (isAllowed(entry) ? fallback.getPolicy(entry) : HELD),
  getStreamMode: fallback.getStreamMode,
  shouldRecover: fallback.shouldRecover,
};

export const settings = {
  validate(text) {
    const { tenants = [], ...others } = JSON.parse(text);
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) {
      throw `${unknown}: unknown, the only key is tenants`;
    }
    if (!Array.isArray(tenants) || !tenants.every((tenant) => typeof tenant === "string" && tenant !== "")) {
      throw "tenants: expected a list of names";
    }
  },
};
