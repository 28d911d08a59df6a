import type { ReactNode } from 'react'
import styles from './card.module.css'

interface CardProps {
  readonly title: string
  readonly children: ReactNode
}

/** One part of what can be said of a service. */
export function Card({ title, children }: CardProps) {
  return (
    <section className={styles['card']} aria-label={title}>
      <h3 className={styles['title']}>{title}</h3>
      {children}
    </section>
  )
}

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
