import type { ReactNode } from 'react'
import styles from './spoken.module.css'

/** For screen readers only: nothing of it is drawn. */
export function Spoken({ children, live = false }: { readonly children: ReactNode; readonly live?: boolean }) {
  return (
    <span className={styles['spoken']} {...(live && { role: 'status' })}>
      {children}
    </span>
  )
}
