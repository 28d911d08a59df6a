import styles from './long-name.module.css'
import { Spoken } from './spoken.tsx'

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
