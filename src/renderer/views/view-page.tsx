import type { ReactNode } from 'react'
import styles from './view-page.module.css'

interface ViewPageProps {
  /** Of the heading, in this page. */
  readonly id: string
  readonly title: string
  readonly children: ReactNode
}

/** One view of the window below its header, by itself. */
export function ViewPage({ id, title, children }: ViewPageProps) {
  return (
    <section className={styles['view']} aria-labelledby={id}>
      <h2 id={id} className={styles['title']}>
        {title}
      </h2>
      {children}
    </section>
  )
}

/** A sentence beside what the view is about; nothing where there is none. */
export const Note = ({ children }: { readonly children: ReactNode }) =>
  children === undefined ? null : <p className={styles['note']}>{children}</p>
