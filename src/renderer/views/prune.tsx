import type { StoredModelView } from '../../contract/models.ts'
import { Button } from '../components/button.tsx'
import { useWindow } from '../store.ts'
import { useQuestion } from '../use-question.ts'
import { modelWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import styles from './prune.module.css'

const about = 'prune'

/** Deletes what no service uses, after it was shown what that is. */
export function Prune({ models }: { readonly models: readonly StoredModelView[] }) {
  const question = useQuestion()
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const prunable = models.filter((model) => model.prunable !== undefined)
  return (
    <section className={styles['prune']} aria-label={modelWords.prune} onKeyDown={question.onKeyDown}>
      {prunable.length > 0 && !question.isAsked && (
        <Button disabled={disabled} pending={pending} takesFocus={question.isOver} onPress={question.open}>
          {modelWords.prunePreview}
        </Button>
      )}
      {prunable.length > 0 && question.isAsked && (
        <>
          <p>{modelWords.wouldDelete(prunable)}</p>
          <ul className={styles['names']}>
            {prunable.map(({ path, name, prunable: why }) => (
              <li key={path}>
                {name === '' ? path : name}: {why}
              </li>
            ))}
          </ul>
          <div className={styles['actions']}>
            <Button
              disabled={disabled}
              onPress={() => {
                question.close()
                void ask(about, { name: 'pruneModels', dryRun: false })
              }}
            >
              {modelWords.pruneNow(prunable)}
            </Button>
            <Button takesFocus onPress={question.close}>
              {modelWords.keep}
            </Button>
          </div>
        </>
      )}
      <Answer about={about} />
    </section>
  )
}
