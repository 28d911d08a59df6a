import { useAgentNow, useNow } from '../clock.ts'
import { duration } from '../words.ts'

/** How long ago, by the agent's clock. */
export const Age = ({ since }: { readonly since: string }) => duration(useAgentNow() - Date.parse(since))

/** "in 12 s", by the agent's clock. */
export const Until = ({ at }: { readonly at: string }) => inWords(Date.parse(at) - useAgentNow())

/** The same by this computer's clock, in milliseconds. */
export const LocalAge = ({ since }: { readonly since: number }) => duration(useNow() - since)
export const LocalUntil = ({ at }: { readonly at: number }) => inWords(at - useNow())

const inWords = (ms: number) => (ms <= 0 ? 'now' : `in ${duration(ms)}`)
