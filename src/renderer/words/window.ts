import { formatExactTime } from '../../contract/format.ts'
import type { Words } from '../../contract/words.ts'

/** How the window stands with the agent, and the agent with its cluster. */
export const connectionWords = {
  title: 'Connection',
  connecting: 'Connecting to the agent…',
  noAgent: 'No agent answers',
  noAccess: 'No access to the agent',
  gone: 'No agent',
  /** `when`: "in 12 s" or "now". */
  nextTry: (when: string) => `Next try ${when}.`,
  tryNow: 'Try now',
  openLocalNetwork: 'Open Local Network settings',
  lasts: (span: string) => `This has lasted ${span}.`,
  seenAt: (ms: number, age: string) => `What you see is from ${formatExactTime(new Date(ms))}, ${age} ago.`,
  place: (context: string, namespace: string | undefined) => `${context} / ${namespace ?? 'all namespaces'}`,
  noAddress: 'No address',
  copyAddress: (address: string) => `Copy address ${address}`,
} as const satisfies Words

/** What the app does with its window. */
export const windowWords = {
  title: 'Window',
  hide: 'Hide this window',
} as const satisfies Words

/** What came of a request, and the buttons that every part of the window has. */
export const requestWords = {
  dismiss: 'Dismiss',
  tryAgain: 'Try again',
  unknown: 'It is not known whether this was done. If you try again, it is still done only once.',
  refusedBy: (by: 'cluster' | 'agent') => (by === 'cluster' ? 'The cluster refused' : 'Refused'),
  command: 'Command',
  copyCommand: 'Copy command',
  copied: 'Copied',
  notAllowed: 'Not allowed',
} as const satisfies Words

export const overviewWords = {
  title: 'Overview',
  views: 'Views',
  choose: 'Choose a service to see its steps, its log and what can be done.',
  about: (name: string, version: string) => `${name} · agent ${version}`,
  paused: 'This machine is paused: its endpoints are withdrawn, and its models stay in memory.',
  resume: 'Resume',
} as const satisfies Words

/** While a part of the window is loaded on demand. */
export const laterWords = {
  loading: 'Loading…',
  failed:
    'This part of the window could not be loaded: the agent was away or has been replaced. Reload the window; changes that are not applied are lost.',
  loadAgain: 'Reload the window',
} as const satisfies Words

export const timeWords = {
  now: 'now',
  in: (span: string) => `in ${span}`,
  ago: (age: string) => `${age} ago`,
  lasts: (span: string) => `for ${span}`,
  since: (moment: string, span: string) => `since ${moment}, for ${span}`,
} as const satisfies Words

/** Connection troubles of a page in a browser. */
export const linkWords = {
  noAccess: 'This page has no access to the agent: run `metal-agent ui` and open the address it prints.',
  misunderstood: 'This page and the agent are of different versions: reload the page.',
  gone: 'The agent does not answer: it ended, or this computer cannot reach it.',
} as const satisfies Words
