// Recovers only while somebody is there to see what comes of it: on working days between two hours of the clock, at an
// offset from UTC. Outside of them a row is left alone and looked at again at the next backstop scan; inside, the next
// policy of the chain decides.
//
// Settings: {"open": "08:00", "close": "18:00", "utc_offset_minutes": 60, "days": ["Mon", "Tue", "Wed", "Thu", "Fri"]}

import * as fallback from "reprieve:policy/recovery@0.1.0";
import * as host from "reprieve:policy/host@0.1.0";

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const DEFAULTS = { open: "08:00", close: "18:00", utc_offset_minutes: 0, days: ["Mon", "Tue", "Wed", "Thu", "Fri"] };
const CLOCK = /^([01]\d|2[0-3]):([0-5]\d)$/;

function minutes(clock) {
  const [, hour, minute] = CLOCK.exec(clock);
  return Number(hour) * 60 + Number(minute);
}

function isOpen(now) {
  const { open, close, utc_offset_minutes, days } = { ...DEFAULTS, ...JSON.parse(host.settings()) };
  const local = new Date(now + utc_offset_minutes * 60_000);
  const minute = local.getUTCHours() * 60 + local.getUTCMinutes();
  return days.includes(DAYS[local.getUTCDay()]) && minute >= minutes(open) && minute < minutes(close);
}

export const recovery = {
  getPolicy: fallback.getPolicy,
  getStreamMode: fallback.getStreamMode,
  shouldRecover: (entry) => isOpen(host.now()) && fallback.shouldRecover(entry),
};

export const settings = {
  validate(text) {
    for (const [key, value] of Object.entries(JSON.parse(text))) {
      const fits = {
        open: () => CLOCK.test(value),
        close: () => CLOCK.test(value),
        utc_offset_minutes: () => Number.isInteger(value) && Math.abs(value) <= 14 * 60,
        days: () => Array.isArray(value) && value.every((day) => DAYS.includes(day)),
      }[key];
      if (!fits?.()) {
        throw `${key}: ${JSON.stringify(value)} is not what this policy takes; see its first lines`;
      }
    }
  },
};
