import type { ReactNode } from 'react'
import type { ServiceState, Step } from '../../contract/service.ts'
import { classNames } from './text.tsx'
import styles from './glyph.module.css'

type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet'

interface Drawing {
  readonly tone: Tone
  readonly spins?: true
  readonly shape: ReactNode
}

const ring = <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.75" />
const disc = <circle cx="8" cy="8" r="7" fill="currentColor" />
const arc = <path d="M8 2a6 6 0 1 1-6 6" fill="none" stroke="currentColor" strokeWidth="1.75" strokeLinecap="round" />
const dashes = (
  <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.75" strokeDasharray="2.4 2.3" />
)
const line = (d: string) => (
  <path d={d} fill="none" stroke="currentColor" strokeWidth="1.75" strokeLinecap="round" strokeLinejoin="round" />
)
/** Drawn into a filled shape, in the colour behind it. */
const cut = (d: string) => (
  <path d={d} fill="none" stroke="var(--card)" strokeWidth="1.75" strokeLinecap="round" strokeLinejoin="round" />
)

const arrowDown = line('M8 2.5v8.5M4.25 7.5 8 11.25l3.75-3.75M3 14h10')
const check = 'M4.9 8.3 7.1 10.5 11.1 5.9'
const cross = 'M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2'

/** The shapes say what the CLI's characters say. */
const states: Readonly<Record<ServiceState, Drawing>> = {
  ready: {
    tone: 'good',
    shape: (
      <>
        {disc}
        {cut(check)}
      </>
    ),
  },
  unready: {
    tone: 'warn',
    shape: (
      <>
        {ring}
        <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
      </>
    ),
  },
  waiting: { tone: 'quiet', shape: ring },
  fetching: { tone: 'busy', shape: arrowDown },
  starting: { tone: 'busy', spins: true, shape: arc },
  'crash-looping': {
    tone: 'bad',
    shape: (
      <>
        {disc}
        {cut(cross)}
      </>
    ),
  },
  stopping: { tone: 'quiet', spins: true, shape: dashes },
  stopped: { tone: 'quiet', shape: <rect x="3" y="3" width="10" height="10" rx="2" fill="currentColor" /> },
  refused: {
    tone: 'bad',
    shape: (
      <>
        {ring}
        {line('M4 12 12 4')}
      </>
    ),
  },
  foreign: { tone: 'quiet', shape: line('M8 1.75 14.25 8 8 14.25 1.75 8z') },
}

const steps: Readonly<Record<Step['status'], Drawing>> = {
  done: { tone: 'good', shape: line('M3.5 8.5 6.75 11.75 12.75 4.75') },
  active: { tone: 'busy', spins: true, shape: arc },
  waiting: { tone: 'quiet', shape: <circle cx="8" cy="8" r="2.25" fill="currentColor" /> },
  failed: { tone: 'bad', shape: line('M4 4l8 8M12 4l-8 8') },
}

const links = {
  live: { tone: 'good', shape: <circle cx="8" cy="8" r="4.5" fill="currentColor" /> },
  busy: { tone: 'busy', spins: true, shape: arc },
  stale: states.unready,
  broken: {
    tone: 'bad',
    shape: (
      <>
        {ring}
        {line('M4 12 12 4')}
      </>
    ),
  },
} satisfies Record<string, Drawing>

/** Each is decoration: the word for it stands beside it. */
export const StateGlyph = ({ state }: { readonly state: ServiceState }) => draw(states[state])
export const StepGlyph = ({ status }: { readonly status: Step['status'] }) => draw(steps[status])
export const LinkGlyph = ({ link }: { readonly link: keyof typeof links }) => draw(links[link])
export const Spinner = () => draw(links.busy)
export const WarningGlyph = () => draw({ tone: 'warn', shape: line('M8 2.2 14.4 13.4H1.6zM8 6.4v3.2M8 11.6v.01') })
export const ErrorGlyph = () => draw(states['crash-looping'])
export const NoteGlyph = () =>
  draw({
    tone: 'quiet',
    shape: (
      <>
        {ring}
        {line('M8 7.5v3.2M8 5.1v.01')}
      </>
    ),
  })
export const CopyGlyph = () =>
  draw({
    tone: 'quiet',
    shape: line('M6 5.5h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1zM3 10.5V3.5a1 1 0 0 1 1-1h6'),
  })
export const CheckGlyph = () => draw(steps.done)
export const ChevronGlyph = () => draw({ tone: 'quiet', shape: line('M6 3.5 10.5 8 6 12.5') })
export const BackGlyph = () => draw({ tone: 'busy', shape: line('M10 3.5 5.5 8l4.5 4.5') })
export const TearOffGlyph = () =>
  draw({ tone: 'quiet', shape: line('M6.5 3.5h-3v9h9v-3M9 3.5h3.5V7M12.5 3.5 7.5 8.5') })
export const CloseGlyph = () => draw({ tone: 'quiet', shape: line('M4.5 4.5l7 7M11.5 4.5l-7 7') })

const draw = ({ tone, spins, shape }: Drawing) => (
  <svg
    className={classNames(styles['glyph'], styles[tone], spins && styles['spinning'])}
    viewBox="0 0 16 16"
    aria-hidden="true"
  >
    {shape}
  </svg>
)
