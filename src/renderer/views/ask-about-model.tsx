import { useState } from 'react'
import type { FileChoiceView } from '../../contract/fit.ts'
import { nameFields, secretOf } from '../addition.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { Folded } from '../components/folded.tsx'
import { ProgressBar } from '../components/progress-bar.tsx'
import { Sentence } from '../components/sentence.tsx'
import { contextAt } from '../fit-at-context.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { addWords } from '../words/add.ts'
import styles from './add-model.module.css'
import { ApplyModel } from './apply-model.tsx'
import { Choices } from './choices.tsx'
import { FitCard } from './fit-card.tsx'

/** What is known of one source: which files it offers, or whether its model fits. */
export function AskAboutModel({ source }: { readonly source: string }) {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const [tries, setTries] = useState(0)
  const names = nameFields(addition, { services, cluster })
  const { answer, problem, isCurrent } = useAnswer(
    {
      name: 'fit',
      source,
      ...secretOf(addition),
      ...(names.problems.namespace === undefined && { namespace: names.namespace }),
      ...(addition.contextSize !== undefined && { contextSize: addition.contextSize }),
    },
    [memory?.budgetBytes, memory?.modelsBytes, tries],
  )
  const at = answer?.kind === 'model' ? contextAt(answer, { wanted: addition.contextSize, isCurrent }) : undefined
  const choose = (chosen: string) => write({ chosen, contextSize: undefined })
  return (
    <>
      <div role="status" className={styles['asking']}>
        {answer === undefined && problem === undefined && (
          <>
            <p>{addWords.asking}</p>
            <ProgressBar label={addWords.progress} percent={undefined} />
            <div>
              <Button onPress={() => write({ chosen: undefined })}>{addWords.cancel}</Button>
            </div>
          </>
        )}
        {problem !== undefined && (
          <Banner tone="bad" actions={<Button onPress={() => setTries((count) => count + 1)}>{addWords.again}</Button>}>
            <p>{problem}</p>
          </Banner>
        )}
        {answer?.kind === 'choose' && (
          <p>
            <Sentence text={answer.message} />
          </p>
        )}
      </div>
      {answer?.kind === 'choose' && <Files title={addWords.files} files={answer.files} onChoose={choose} />}
      {answer?.kind === 'model' && (
        <>
          <OtherFiles files={answer.files} source={answer.source} onChoose={choose} />
          <FitCard model={answer} at={at} isAsking={problem === undefined} />
          <ApplyModel model={answer} names={names} verdict={at?.verdict} />
        </>
      )}
    </>
  )
}

interface FilesProps {
  readonly title: string
  readonly files: readonly FileChoiceView[]
  readonly chosen?: string
  readonly onChoose: (source: string) => void
}

const Files = ({ title, files, chosen, onChoose }: FilesProps) => (
  <Choices
    title={title}
    choices={files.map((file) => ({ id: file.source, name: file.path, text: addWords.file(file) }))}
    chosen={chosen}
    onChoose={onChoose}
  />
)

function OtherFiles({ files, source, onChoose }: Pick<FilesProps, 'files' | 'onChoose'> & { readonly source: string }) {
  if (files.length < 2) return null
  return (
    <Folded title={addWords.otherFiles(files.length - 1)}>
      <Files title={addWords.files} files={files} chosen={source} onChoose={onChoose} />
    </Folded>
  )
}
