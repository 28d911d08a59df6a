import type { QueryInput } from '../../contract/queries.ts'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { budgetWords } from '../words/memory-budget.ts'
import styles from './memory-preview.module.css'

interface MemoryPreviewProps {
  /** What is written and not applied yet. */
  readonly settings: Extract<QueryInput, { name: 'evictionPreview' }>['settings']
}

/** What settings about memory would do to the services, by the agent's own decision. */
export function MemoryPreview({ settings }: MemoryPreviewProps) {
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const { answer, problem, isCurrent } = useAnswer({ name: 'evictionPreview', settings }, [memory, services])
  const lines = problem !== undefined ? [problem] : answer && isCurrent ? budgetWords.lines(answer) : undefined
  return (
    <section className={styles['preview']} aria-label={budgetWords.preview} role="status">
      {lines === undefined ? (
        <p>{budgetWords.looking}</p>
      ) : (
        <ul>
          {lines.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
    </section>
  )
}
