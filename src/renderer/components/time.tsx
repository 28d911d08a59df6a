import { useAgentNow, useNow } from '../clock.ts'
import { formatMoment, formatSpan } from '../../contract/format.ts'
import { timeWords } from '../words/connection.ts'

/** How long ago, by the agent's clock. */
export const Age = ({ since }: { readonly since: string }) => formatSpan(useAgentNow() - Date.parse(since))

/** "since 14:05, for 12 min": when it was, by the calendar here, and how long ago, both by the agent's clock. */
export function Since({ at }: { readonly at: string }) {
  const now = useAgentNow()
  const moment = formatMoment(new Date(at), new Date(now))
  return <time dateTime={at}>{timeWords.since(moment, formatSpan(now - Date.parse(at)))}</time>
}

/** "in 12 s", by the agent's clock. */
export const Until = ({ at }: { readonly at: string }) => inWords(Date.parse(at) - useAgentNow())

/** The same by this computer's clock, in milliseconds. */
export const LocalAge = ({ since }: { readonly since: number }) => formatSpan(useNow() - since)
export const LocalUntil = ({ at }: { readonly at: number }) => inWords(at - useNow())

const inWords = (ms: number) => (ms < 1_000 ? timeWords.now : timeWords.in(formatSpan(ms)))
