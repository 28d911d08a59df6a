import { useEffect, useRef, useState } from 'react'
import { type AnswerEnd, maxQuestion } from '../../contract/ask.ts'
import type { LinkError, Unsubscribe } from '../../contract/client.ts'
import type { ServiceView } from '../../contract/service.ts'
import { Banner, Card, Note } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { Form, TextInput } from '../components/fields.tsx'
import { useLink, useWindow } from '../store.ts'
import { askWords } from '../words/services.ts'
import styles from './ask.module.css'

interface Said {
  readonly text: string
  readonly isUnderWay: boolean
  readonly end?: AnswerEnd | undefined
  /** Why there is no more, in one sentence. */
  readonly problem?: string
}

/** A question to the model, and what it answers as it answers it. One service per component. */
export function AskBox({ service: { namespace, name, state } }: { readonly service: ServiceView }) {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const [question, setQuestion] = useState('')
  const [said, setSaid] = useState<Said>()
  const leave = useRef<Unsubscribe>(undefined)
  useEffect(() => () => leave.current?.(), [])
  if (state !== 'ready' && said === undefined) return null
  const isUnderWay = said?.isUnderWay === true
  const canAsk = connected && state === 'ready' && !isUnderWay && question.trim() !== ''
  const ask = () => {
    if (!canAsk) return
    setSaid({ text: '', isUnderWay: true })
    leave.current = link.stream(
      { name: 'ask', service: { namespace, name }, question: question.trim() },
      {
        next: ({ text, end }) => {
          setSaid((before) => ({ text: `${before?.text ?? ''}${text}`, isUnderWay: end === undefined, end }))
          if (end !== undefined) leave.current?.()
        },
        end: ({ message }: LinkError) =>
          setSaid((before) => ({ text: before?.text ?? '', isUnderWay: false, problem: message })),
      },
    )
  }
  const stop = () => {
    leave.current?.()
    setSaid((before) => before && { ...before, isUnderWay: false, problem: askWords.stopped })
  }
  return (
    <Card title={askWords.title}>
      <Form onDone={ask}>
        <TextInput
          label={askWords.question}
          value={question}
          onChange={(text) => setQuestion(text.slice(0, maxQuestion))}
          placeholder={askWords.example}
          beside={
            isUnderWay ? (
              <Button onPress={stop}>{askWords.stop}</Button>
            ) : (
              <Button disabled={!canAsk} onPress={ask}>
                {askWords.ask}
              </Button>
            )
          }
        />
      </Form>
      {said !== undefined && <SaidSoFar said={said} />}
    </Card>
  )
}

function SaidSoFar({ said: { text, isUnderWay, end, problem } }: { readonly said: Said }) {
  return (
    <>
      {text !== '' && (
        <div
          className={styles['answer']}
          role="group"
          tabIndex={0}
          aria-label={askWords.answer}
          aria-live="polite"
          aria-busy={isUnderWay}
        >
          {text}
        </div>
      )}
      {isUnderWay && text === '' && <Note>{askWords.waiting}</Note>}
      {end !== undefined && <Note>{askWords.rate(end)}</Note>}
      {problem !== undefined && <Banner tone="note">{problem}</Banner>}
    </>
  )
}
