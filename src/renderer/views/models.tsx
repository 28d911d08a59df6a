import type { StoredModelView } from '../../contract/models.ts'
import { removalOf } from '../model-removal.ts'
import { modelSigns } from '../model-signs.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { modelWords } from '../words/views.ts'
import { Downloads } from './downloads.tsx'
import { ModelRow } from './model-row.tsx'
import styles from './models.module.css'
import { Note, ViewPage } from './view-page.tsx'
import { Prune } from './prune.tsx'
import { PullModel } from './pull-model.tsx'

/** The models in the store of this machine. */
export function Models() {
  const services = useSnapshot((snapshot) => snapshot.services)
  const downloads = useSnapshot((snapshot) => snapshot.downloads)
  const signs = useSnapshot(modelSigns)
  const requests = useWindow((state) => state.requests)
  const { answer, problem } = useAnswer({ name: 'models' }, [signs, requests])
  const models = answer?.models ?? []
  return (
    <ViewPage id="models" title={modelWords.title}>
      <Note>{problem}</Note>
      <Note>{answer?.problem}</Note>
      <PullModel />
      <Downloads />
      {answer !== undefined && models.length === 0 && <Note>{modelWords.none}</Note>}
      {models.length > 0 && (
        <ul className={styles['models']} aria-label={modelWords.stored}>
          {largestFirst(models).map((model) => (
            <ModelRow key={model.path} model={model} removal={removalOf(model.name, models, { services, downloads })} />
          ))}
        </ul>
      )}
      {answer !== undefined && (
        <Note>
          {modelWords.store(answer)}
          <br />
          {answer.directory}
        </Note>
      )}
      <Prune models={models} />
    </ViewPage>
  )
}

const largestFirst = (models: readonly StoredModelView[]) => models.toSorted((a, b) => b.sizeBytes - a.sizeBytes)
