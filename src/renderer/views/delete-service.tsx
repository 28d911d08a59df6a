import type { ServiceView } from '../../contract/service.ts'
import { Buttons } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { Said } from '../components/text.tsx'
import { useAnswer, useRequest } from '../use-answer.ts'
import { useQuestion } from '../focus.ts'
import { deleteWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import styles from './delete-service.module.css'

const deletions = 'delete/'

/** Key of the delete request; its outcome is shown in the list once the service is gone. */
export const deletionOf = (uid: string) => `${deletions}${uid}`
export const isDeletion = (about: string) => about.startsWith(deletions)

/** Deletes the service from the cluster, after a question in its place that says what goes with it. */
export function DeleteService({ service }: { readonly service: ServiceView }) {
  const about = deletionOf(service.uid)
  const question = useQuestion()
  const { pending, disabled } = useRequest(about)
  return (
    <section className={styles['delete']} aria-label={deleteWords.title} onKeyDown={question.onKeyDown}>
      {question.isAsked ? (
        <Question service={service} onAnswer={question.close} />
      ) : (
        <div>
          <Button
            label={deleteWords.askOne(service.name)}
            disabled={disabled}
            pending={pending}
            takesFocus={question.isOver}
            onPress={question.open}
          >
            {pending ? deleteWords.pending : deleteWords.ask}
          </Button>
        </div>
      )}
      <Answer about={about} />
    </section>
  )
}

interface QuestionProps {
  readonly service: ServiceView
  readonly onAnswer: () => void
}

function Question({ service: { uid, namespace, name }, onAnswer }: QuestionProps) {
  const { disabled, ask } = useRequest(deletionOf(uid))
  const service = { namespace, name }
  const { answer, problem, again } = useAnswer({ name: 'deletion', service })
  return (
    <>
      <div role="status">
        {answer === undefined && problem === undefined && (
          <>
            <p>{deleteWords.asking}</p>
            <ProgressBar label={deleteWords.asking} percent={undefined} />
          </>
        )}
        {answer !== undefined && <Said text={answer.message} />}
        {problem !== undefined && <p>{problem}</p>}
      </div>
      <Buttons>
        {answer !== undefined && (
          <Button
            disabled={disabled}
            onPress={() => {
              onAnswer()
              void ask({ name: 'deleteModel', service, uid: answer.uid })
            }}
          >
            {deleteWords.now(name)}
          </Button>
        )}
        {answer === undefined && problem !== undefined && <Button onPress={again}>{deleteWords.again}</Button>}
        <Button takesFocus onPress={onAnswer}>
          {deleteWords.keep}
        </Button>
      </Buttons>
    </>
  )
}
