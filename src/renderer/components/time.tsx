import { useAgentNow, useNow } from '../clock.ts'
import { formatSpan } from '../../contract/format.ts'

/** How long ago, by the agent's clock. */
export const Age = ({ since }: { readonly since: string }) => formatSpan(useAgentNow() - Date.parse(since))

/** "in 12 s", by the agent's clock. */
export const Until = ({ at }: { readonly at: string }) => inWords(Date.parse(at) - useAgentNow())

/** The same by this computer's clock, in milliseconds. */
export const LocalAge = ({ since }: { readonly since: number }) => formatSpan(useNow() - since)
export const LocalUntil = ({ at }: { readonly at: number }) => inWords(at - useNow())

const inWords = (ms: number) => (ms < 1_000 ? 'now' : `in ${formatSpan(ms)}`)
