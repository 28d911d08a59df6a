import type { ServiceMemory, ServiceView } from '../../contract/service.ts'
import { useSnapshot } from '../store.ts'
import { estimateWords, memoryWords } from '../words/services.ts'
import { Card, Facts } from './card.tsx'
import styles from './service-memory.module.css'

/** What a server was expected to need, in items, beside what it was measured to hold. */
export function ServiceMemoryCard({ service: { uid, memory } }: { readonly service: ServiceView }) {
  const footprint = useSnapshot(({ figures }) => figures[uid]?.footprintBytes)
  const counted = useSnapshot(({ figures }) => figures[uid]?.heldBytes)
  if (memory === undefined && footprint === undefined) return null
  return (
    <Card title={estimateWords.title}>
      <Facts
        facts={[
          [estimateWords.measured, memoryWords.size(footprint)],
          [estimateWords.estimated, memoryWords.size(memory?.needBytes)],
          ...(counted === undefined ? [] : [[estimateWords.counted, memoryWords.size(counted)] as const]),
        ]}
      />
      {counted !== undefined && <p className={styles['note']}>{estimateWords.whyCounted}</p>}
      {memory?.items !== undefined && <Items items={memory.items} />}
      {memory?.guess !== undefined && <p className={styles['note']}>{memory.guess}</p>}
      {memory?.notes?.map((note) => (
        <p key={note} className={styles['note']}>
          {note}
        </p>
      ))}
    </Card>
  )
}

function Items({ items }: { readonly items: NonNullable<ServiceMemory['items']> }) {
  const parts = estimateWords.items
    .map(([key, name]) => ({ name, bytes: items[key] ?? 0 }))
    .filter(({ bytes }) => bytes > 0)
  const largest = Math.max(...parts.map(({ bytes }) => bytes), 1)
  return (
    <ul className={styles['items']} aria-label={estimateWords.estimated}>
      {parts.map(({ name, bytes }) => (
        <li key={name} className={styles['item']}>
          <span>{name}</span>
          <span className={styles['bar']}>
            <span className={styles['part']} style={{ width: `${(100 * bytes) / largest}%` }} />
          </span>
          <span className={styles['size']}>{memoryWords.size(bytes)}</span>
        </li>
      ))}
    </ul>
  )
}
