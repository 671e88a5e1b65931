// Tells a message that kills its handler each time it is delivered from one that was unlucky: after some deaths of the
// same message it is held, whatever budget is left, and a credit alone brings it back.
//
// Settings: {"max_deaths": 3}

import * as fallback from "reprieve:policy/recovery@0.1.0";
import * as host from "reprieve:policy/host@0.1.0";

const HELD = {
  name: "PoisonLoop",
  maxRecoveryAttempts: 0,
  cooldown: 0,
  holdForReviewAfterExhaustion: true,
  delayFirstAttempt: false,
};

export const recovery = {
  getPolicy(entry) {
    const { max_deaths = 3 } = JSON.parse(host.settings());
    return entry.incarnation >= max_deaths ? HELD : fallback.getPolicy(entry);
  },
  getStreamMode: fallback.getStreamMode,
  shouldRecover: fallback.shouldRecover,
};

export const settings = {
  validate(text) {
    const { max_deaths = 3, ...others } = JSON.parse(text);
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) {
      throw `${unknown}: unknown, the only key is max_deaths`;
    }
    if (!Number.isInteger(max_deaths) || max_deaths < 1) {
      throw `max_deaths: ${JSON.stringify(max_deaths)} is no number of deaths; expected a whole number from 1`;
    }
  },
};
