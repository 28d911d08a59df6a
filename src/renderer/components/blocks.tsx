import type { ReactNode } from 'react'
import { ErrorGlyph, NoteGlyph, WarningGlyph } from './glyph.tsx'
import { classNames } from './text.tsx'
import styles from './blocks.module.css'

interface ViewPageProps {
  /** DOM id of the heading. */
  readonly id: string
  readonly title: string
  readonly children: ReactNode
}

/** One view of the window below its header, by itself. */
export function ViewPage({ id, title, children }: ViewPageProps) {
  return (
    <section className={styles['view']} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}

/** A sentence beside what the view is about; nothing where there is none. */
export const Note = ({ children }: { readonly children: ReactNode }) =>
  children === undefined ? null : <p className={styles['note']}>{children}</p>

interface CardProps {
  readonly title: string
  /** 2 where it stands in no other part of the view. */
  readonly level?: 2 | 3
  readonly children: ReactNode
}

/** One part of what can be said of a service. */
export function Card({ title, level = 3, children }: CardProps) {
  const Heading = level === 2 ? 'h2' : 'h3'
  return (
    <section className={styles['card']} aria-label={title}>
      <Heading className={styles['cardTitle']}>{title}</Heading>
      {children}
    </section>
  )
}

/** One that says more than a title what it is about. */
export const PlainCard = ({ children }: { readonly children: ReactNode }) => (
  <div className={styles['card']}>{children}</div>
)

type Fact = readonly [name: string, value: ReactNode]

/** Names and values, side by side. */
export function Facts({ facts }: { readonly facts: readonly (Fact | false)[] }) {
  return (
    <dl className={styles['facts']}>
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

/** What stays at the end of a view while that is scrolled. */
export const BottomBar = ({ children }: { readonly children: ReactNode }) => (
  <div className={styles['bottomBar']}>{children}</div>
)

/** Buttons in a row. */
export const Buttons = ({ children }: { readonly children: ReactNode }) => (
  <div className={styles['actions']}>{children}</div>
)

interface BannerProps {
  readonly tone: 'note' | 'warn' | 'bad'
  readonly children: ReactNode
  /** Buttons. */
  readonly actions?: ReactNode
}

const glyphs = { note: <NoteGlyph />, warn: <WarningGlyph />, bad: <ErrorGlyph /> }

/** Something a person should know, with what can be done about it. */
export function Banner({ tone, children, actions }: BannerProps) {
  return (
    <div className={classNames(styles['banner'], styles[`${tone}Banner`])}>
      <span className={styles['glyph']}>{glyphs[tone]}</span>
      <div className={styles['text']}>{children}</div>
      {actions !== undefined && <div className={styles['bannerActions']}>{actions}</div>}
    </div>
  )
}

interface FoldedProps {
  readonly title: string
  readonly onToggle?: (isOpen: boolean) => void
  readonly children: ReactNode
}

/** Details that few readers need, closed at first. */
export function Folded({ title, onToggle, children }: FoldedProps) {
  return (
    <details
      className={styles['folded']}
      {...(onToggle !== undefined && { onToggle: (event) => onToggle(event.currentTarget.open) })}
    >
      <summary className={styles['foldedTitle']}>{title}</summary>
      <div className={styles['content']}>{children}</div>
    </details>
  )
}
