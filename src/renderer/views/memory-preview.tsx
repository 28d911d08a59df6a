import { useEffect, useState } from 'react'
import type { QueryInput } from '../../contract/queries.ts'
import { Spoken } from '../components/spoken.tsx'
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
  const said = useCalm(lines?.join(' '))
  return (
    <section className={styles['preview']} aria-label={budgetWords.preview}>
      <Spoken live>{said}</Spoken>
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

/** Long enough that a person who types or slides has come to an end, in milliseconds. */
const calmMs = 1_200

/** What has been so for a while: the rest would be spoken at every key. */
function useCalm(text: string | undefined): string | undefined {
  const [calm, setCalm] = useState<string>()
  useEffect(() => {
    if (text === undefined) return
    const timer = setTimeout(() => setCalm(text), calmMs)
    return () => clearTimeout(timer)
  }, [text])
  return calm
}
