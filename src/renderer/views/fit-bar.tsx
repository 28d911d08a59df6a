import type { FittedModelView } from '../../contract/fit.ts'
import { classNames } from '../components/class-names.ts'
import type { FitAtContext } from '../fit-at-context.ts'
import { addWords } from '../words/add.ts'
import { memoryWords } from '../words/services.ts'
import styles from './fit-bar.module.css'

interface FitBarProps {
  readonly at: FitAtContext
  readonly room: FittedModelView['room']
}

/** What a model would take of the budget, beside what others hold. */
export function FitBar({ at, room: { budgetBytes, committedBytes } }: FitBarProps) {
  const { weightsBytes, kvBytes, restBytes, totalBytes } = at
  const parts = [
    { key: 'held', name: addWords.held, bytes: committedBytes },
    { key: 'weights', name: addWords.weights, bytes: weightsBytes },
    { key: 'kv', name: addWords.kv, bytes: kvBytes },
    { key: 'rest', name: addWords.rest, bytes: restBytes },
  ]
  const whole = Math.max(budgetBytes, committedBytes + totalBytes, 1)
  const percent = (bytes: number) => `${((100 * bytes) / whole).toFixed(2)}%`
  return (
    <div>
      <div className={styles['scale']} aria-hidden="true">
        <div className={styles['bar']} data-chart>
          {parts.map(({ key, bytes }) => (
            <span key={key} className={classNames(styles['part'], styles[key])} style={{ width: percent(bytes) }} />
          ))}
        </div>
        {budgetBytes < whole && (
          <span className={styles['budget']} style={{ insetInlineStart: percent(budgetBytes) }} />
        )}
      </div>
      <ul className={styles['legend']}>
        {parts.map(({ key, name, bytes }) => (
          <li key={key}>
            <span className={classNames(styles['key'], styles[key])} aria-hidden="true" />
            {name} {memoryWords.size(bytes)}
          </li>
        ))}
        <li>
          <span className={styles['budgetKey']} aria-hidden="true" />
          {addWords.budget(budgetBytes)}
        </li>
      </ul>
    </div>
  )
}
