import type { FittedModelView, FitVerdict } from '../../contract/fit.ts'
import { applicationYaml } from '../../contract/model-application.ts'
import { additionRequests, applicationOf, type NameFields } from '../addition.ts'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { Folded } from '../components/folded.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useWindow } from '../store.ts'
import { addWords } from '../words/add.ts'
import styles from './add-model.module.css'
import { Answer } from './answer.tsx'
import { Card } from './card.tsx'

const about = additionRequests.apply

interface ApplyModelProps {
  readonly model: FittedModelView
  readonly names: NameFields
  /** Absent while it is not known. */
  readonly verdict: FitVerdict | undefined
}

/** What it is called, what is created, and the button that creates it. */
export function ApplyModel({ model, names, verdict }: ApplyModelProps) {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const writeCreated = useWindow((state) => state.writeCreated)
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const { created } = addition
  const application = applicationOf(addition, names, model.source)
  const apply = async () => {
    if (application === undefined || !connected || pending) return
    const { namespace, name } = application
    if (await ask(about, { name: 'applyModel', application })) writeCreated(addition, { namespace, name })
  }
  return (
    <>
      <Card title={addWords.names}>
        <div className={styles['names']}>
          <TextInput
            label={addWords.name}
            value={names.name}
            onChange={(name) => write({ name })}
            help={addWords.nameHelp}
            problem={names.problems.name}
          />
          <TextInput
            label={addWords.namespace}
            value={names.namespace}
            onChange={(namespace) => write({ namespace })}
            problem={names.problems.namespace}
          />
        </div>
        {application !== undefined && (
          <Folded title={addWords.yaml}>
            <p className={styles['aside']}>{addWords.yamlHelp}</p>
            <Command text={applicationYaml(application)} label={addWords.yaml} copyLabel={addWords.copyYaml} />
          </Folded>
        )}
      </Card>
      <Answer about={about} />
      <div className={styles['apply']}>
        {created !== undefined && <p role="status">{addWords.created(created.name)}</p>}
        <div className={styles['buttons']}>
          <Button
            look="prominent"
            disabled={application === undefined || !connected || created !== undefined}
            pending={pending}
            onPress={() => void apply()}
          >
            {pending ? addWords.adding : addWord(verdict)}
          </Button>
        </div>
      </div>
    </>
  )
}

function addWord(verdict: FitVerdict | undefined): string {
  if (verdict === undefined || verdict === 'fits') return addWords.add
  return verdict === 'doesNotFit' ? addWords.addInVain : addWords.addAnyway
}
