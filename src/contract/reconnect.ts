/** An agent that restarts is back within a second or two; waiting for an agent that stays away should cost nothing. */
const firstRetryMs = 250
const longestRetryMs = 8_000

/** How long a client that lost the agent waits after so many failures in a row, from 1 on. */
export const retryDelayMs = (failures: number): number => Math.min(longestRetryMs, firstRetryMs * 2 ** (failures - 1))
