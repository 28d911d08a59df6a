import type { ServiceView, WayToFitView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { fitWords, memoryWords } from '../words/services.ts'
import { Card } from './card.tsx'
import styles from './ways-to-fit.module.css'

/** What stands in the way of a model that does not fit, and what would make it fit. */
export function WaysToFit({ service: { uid, memory } }: { readonly service: ServiceView }) {
  const state = useSnapshot((snapshot) => snapshot.memory)
  const ways = memory?.waysToFit
  if (memory === undefined || ways === undefined || ways.length === 0) return null
  return (
    <Card title={fitWords.title}>
      <p>{fitWords.needs(memoryWords.size(memory.needBytes), state)}</p>
      <ul className={styles['ways']} aria-label={fitWords.ways}>
        {ways.map((way) => (
          <li key={way.sentence} className={styles['way']}>
            <span className={styles['sentence']}>{way.sentence}</span>
            <WayButtons about={uid} way={way} />
          </li>
        ))}
      </ul>
      {memory.place !== undefined && <p className={styles['place']}>{fitWords.place(memory.place)}</p>}
    </Card>
  )
}

/** What is ours to do; the rest is for the person's other tools. */
function WayButtons({ about, way }: { readonly about: string; readonly way: WayToFitView }) {
  const ask = useWindow((state) => state.ask)
  const disabled = useWindow(
    ({ connection, requests }) => connection.state !== 'live' || requests[about]?.state === 'pending',
  )
  const show = useWindow((state) => state.show)
  if (way.kind === 'budget') return <Button onPress={() => show('settings')}>{fitWords.settings}</Button>
  return way.evict?.map((key) => {
    const [namespace = '', name = ''] = key.split('/')
    return (
      <Button
        key={key}
        disabled={disabled}
        onPress={() => void ask(about, { name: 'evict', service: { namespace, name } })}
      >
        {fitWords.evict(name)}
      </Button>
    )
  })
}
