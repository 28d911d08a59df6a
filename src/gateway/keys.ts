import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { earlierKeyMs, type EarlierKey } from '../contract/gateway.ts'
import { Refusal } from './refusal.ts'

/** What is asked for at a time: a digest (SHA-256 as hex), or a word for that there is none. */
export interface AskedKey {
  readonly key: string
  /** The one before it, and until when that is valid, on the monotonic clock. */
  readonly lastKey: EarlierKey | undefined
}

/** What is asked for once an agent has told it; `before`: what was asked for until now. */
export function askedKey(
  { key, earlierKey }: { readonly key: string; readonly earlierKey?: EarlierKey | undefined },
  before: AskedKey | undefined,
  now: number,
): AskedKey {
  // A key that was taken away counts no longer, nor does the one before it.
  if (!isDigest(key)) return { key, lastKey: undefined }
  if (before && isDigest(before.key)) {
    return { key, lastKey: before.key === key ? before.lastKey : { sha256: before.key, until: now + earlierKeyMs } }
  }
  if (!earlierKey) return { key, lastKey: undefined }
  // However the clock was set since, it is valid for no longer than after a change.
  return {
    key,
    lastKey: { sha256: earlierKey.sha256, until: now + Math.min(earlierKey.until - Date.now(), earlierKeyMs) },
  }
}

/** For another process, by the clock that it has too. */
export function earlierKeyOf(asked: AskedKey | undefined, now: number): { readonly earlierKey?: EarlierKey } {
  const lastKey = asked && validLastKey(asked, now)
  return lastKey ? { earlierKey: { sha256: lastKey.sha256, until: Math.round(Date.now() + lastKey.until - now) } } : {}
}

const validLastKey = ({ lastKey }: AskedKey, now: number): EarlierKey | undefined =>
  lastKey && lastKey.until > now ? lastKey : undefined

export const isDigest = (key: string): boolean => key !== 'none' && key !== 'nobody'

/** What nobody can show. */
const noDigest = '0'.repeat(64)

/**
 * Whether it is what is asked for, or was before. It takes the same time whatever is asked for, and whether anything is: nobody learns from it
 * which keys there are.
 */
export function isShown(shown: string, asked: AskedKey | undefined, now: number): boolean {
  // Loaded with the first key: it takes 2 MiB, and most gateways ask for none.
  const { createHash, timingSafeEqual } = process.getBuiltinModule('node:crypto')
  const digest = createHash('sha256').update(shown).digest()
  const key = asked !== undefined && isDigest(asked.key) ? asked.key : noDigest
  const lastKey = (asked && validLastKey(asked, now)?.sha256) ?? noDigest
  const fits = [key, lastKey].map((one) => timingSafeEqual(Buffer.from(one, 'hex'), digest))
  return shown !== '' && fits.includes(true)
}

/** The headers that carry the API key of a service. */
export const keyHeaders: readonly string[] = ['authorization', 'x-api-key']

/** Throws Refusal where a client does not show the API key that a service asks for. */
export function requireKey({ headers }: IncomingMessage, asked: AskedKey | undefined, now: number): void {
  if (asked?.key !== 'none' && !isShown(shownKey(headers), asked, now)) throw keyNeeded
}

/** Empty where it shows none. */
function shownKey(headers: IncomingHttpHeaders): string {
  const bearer = /^bearer (.*)$/i.exec(headers.authorization ?? '')?.[1]?.trimStart()
  const [shown = ''] = [bearer ?? headers['x-api-key']].flat()
  return shown
}

const keyNeeded = new Refusal(
  ...(['4xx', 401, 'invalid_api_key'] as const),
  'This model asks for an API key: send it as "Authorization: Bearer KEY". Whoever runs the service has it.',
)
