import type { ReactNode } from 'react'
import styles from './card.module.css'

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
      <Heading className={styles['title']}>{title}</Heading>
      {children}
    </section>
  )
}

/** One that says more than a title what it is about. */
export const PlainCard = ({ children }: { readonly children: ReactNode }) => (
  <div className={styles['card']}>{children}</div>
)

/** Names and values, side by side. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className={styles['facts']}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
