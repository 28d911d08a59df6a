import { type ReactNode, useCallback, useSyncExternalStore } from 'react'
import { formatMoment, formatSpan } from '../../contract/format.ts'
import { partsOf, type SentencePart } from '../sentence-parts.ts'
import { useWindow } from '../store.ts'
import { timeWords } from '../words/window.ts'
import styles from './text.module.css'

/** Several class names as one; absent and false ones are left out. */
export const classNames = (...names: readonly (string | false | undefined)[]): string =>
  names.filter((name) => name !== undefined && name !== false).join(' ')

/** What the agent or the cluster says. Flags, names, paths and URLs are not broken in their dashes; what stands in backticks is code. */
export const Sentence = ({ text }: { readonly text: string }) => <Parts parts={partsOf(text)} />

interface SaidProps {
  readonly text: string
  /** `quiet` beside what it is about, `small` below it. */
  readonly look?: 'quiet' | 'small'
}

/** A paragraph of it. */
export const Said = ({ text, look }: SaidProps) => (
  <p className={look && styles[look]}>
    <Sentence text={text} />
  </p>
)

const Parts = ({ parts }: { readonly parts: readonly SentencePart[] }) => parts.map(drawn)

/** A sentence has its parts for as long as it is the same. */
function drawn(part: SentencePart, index: number) {
  switch (part.kind) {
    case 'plain':
      return part.text
    case 'whole':
      return (
        <span key={index} className={styles['whole']}>
          {part.pieces.map((piece, number) => (
            <span key={number} className={styles['whole']}>
              {piece}
            </span>
          ))}
        </span>
      )
    case 'code':
      return (
        <code key={index} className={styles['code']}>
          <Parts parts={part.parts} />
        </code>
      )
  }
}

/** Names often differ only at their end, so that the middle gives way. */
const endLength = 8

export function LongName({ name }: { readonly name: string }) {
  if (name.length <= 2 * endLength) return <span className={styles['name']}>{name}</span>
  return (
    <span className={styles['name']} title={name}>
      <span className={styles['front']} aria-hidden="true">
        {name.slice(0, -endLength)}
      </span>
      <span className={styles['end']} aria-hidden="true">
        {name.slice(-endLength)}
      </span>
      <Spoken>{name}</Spoken>
    </span>
  )
}

/** For screen readers only: nothing of it is drawn. */
export function Spoken({ children, live = false }: { readonly children: ReactNode; readonly live?: boolean }) {
  return (
    <span className={styles['spoken']} {...(live && { role: 'status' })}>
      {children}
    </span>
  )
}

/** Makes a text of a time that passes, such as "Last used 12 s ago." of "12 s"; without it, the time stands alone. */
interface Timed {
  readonly words?: (time: string) => string
}

const alone = (time: string) => time

/** How long ago, such as "12 s", by the agent's clock. */
export const Age = ({ since, words = alone }: Timed & { readonly since: string }) =>
  words(formatSpan(useAgentNow() - Date.parse(since)))

/** "since 14:05, for 12 min": when it was, by the calendar here, and how long ago, both by the agent's clock. */
export function Since({ at, words = alone }: Timed & { readonly at: string }) {
  const now = useAgentNow()
  const moment = formatMoment(new Date(at), new Date(now))
  return <time dateTime={at}>{words(timeWords.since(moment, formatSpan(now - Date.parse(at))))}</time>
}

/** "in 12 s", by the agent's clock. */
export const Until = ({ at, words = alone }: Timed & { readonly at: string }) =>
  words(inWords(Date.parse(at) - useAgentNow()))

/** The same by this computer's clock, in milliseconds. */
export const LocalAge = ({ since, words = alone }: Timed & { readonly since: number }) =>
  words(formatSpan(useNow() - since))
export const LocalUntil = ({ at, words = alone }: Timed & { readonly at: number }) => words(inWords(at - useNow()))

const inWords = (ms: number) => (ms < 1_000 ? timeWords.now : timeWords.in(formatSpan(ms)))

const tickMs = 1_000
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** This computer's time in milliseconds, updated every second while a component uses it. */
const useNow = (): number => useSyncExternalStore(subscribe, wholeSecond)

/** The agent's time in milliseconds, by which its timestamps are read. */
function useAgentNow(): number {
  const lead = useWindow((state) => state.clockLead)
  return useSyncExternalStore(
    subscribe,
    useCallback(() => wholeSecond(lead), [lead]),
  )
}

const wholeSecond = (lead = 0) => Math.floor((Date.now() + lead) / tickMs) * tickMs

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(tick, tickMs)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

function tick(): void {
  if (document.visibilityState === 'hidden') return
  for (const listener of listeners) listener()
}
