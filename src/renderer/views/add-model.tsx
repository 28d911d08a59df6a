import { useEffect, useRef } from 'react'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import type { FileChoiceView, FittedModelView, FitVerdict } from '../../contract/fit.ts'
import { applicationYaml, catalogue } from '../../contract/model-application.ts'
import { isLocalSource } from '../../contract/names.ts'
import {
  additionRequests,
  applicationOf,
  isPasted,
  nameFields,
  type NameFields,
  secretOf,
  secretProblem,
  sourceProblem,
  takesSecret,
} from '../addition.ts'
import { Banner, BottomBar, Buttons, Card, Folded } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { Form, TextInput } from '../components/fields.tsx'
import { BackGlyph } from '../components/glyph.tsx'
import { classNames, LongName, Said } from '../components/text.tsx'
import { contextAt, FitCard } from './fit-card.tsx'
import { useChosenFocus, useKeptFocus } from '../focus.ts'
import { modelSigns } from '../model-store.ts'
import { hasWords } from '../search.ts'
import { useConnected, useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, useRequest } from '../use-answer.ts'
import { addWords } from '../words/models.ts'
import { Answer } from './answer.tsx'
import styles from './add-model.module.css'

/** Makes a service of a model: which, whether it fits, and by what name. Escape goes back, and what was written is kept. */
export function AddModel() {
  const select = useWindow((state) => state.select)
  const addition = useWindow((state) => state.addition)
  const discard = useWindow((state) => state.discardAddition)
  const heading = useRef<HTMLHeadingElement>(null)
  useChosenFocus(heading)
  const keepFocus = useKeptFocus(heading)
  useOpenCreated()
  const { chosen } = addition
  return (
    <section
      className={styles['add']}
      aria-labelledby="add-model"
      {...keepFocus}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // The next one is for the window.
        event.preventDefault()
        select(undefined)
      }}
    >
      <div className={styles['top']}>
        <Button look="plain" onPress={() => select(undefined)}>
          <BackGlyph />
          {addWords.back}
        </Button>
        <Button look="plain" onPress={discard}>
          {addWords.startOver}
        </Button>
      </div>
      <h2 id="add-model" ref={heading} tabIndex={-1}>
        {addWords.title}
      </h2>
      <AddSource />
      {chosen !== undefined && <AskAboutModel key={chosen} source={chosen} />}
    </section>
  )
}

/** Turns to the service that was created, as soon as it is seen here. */
function useOpenCreated() {
  const created = useWindow(({ addition }) => addition.created)
  const services = useSnapshot((snapshot) => snapshot.services)
  const select = useWindow((state) => state.select)
  const discard = useWindow((state) => state.discardAddition)
  const uid = services.find(({ namespace, name }) => namespace === created?.namespace && name === created.name)?.uid
  useEffect(() => {
    if (uid === undefined) return
    discard()
    select(uid)
  }, [uid, discard, select])
}

/** Where the model comes from: pasted, or chosen from the store or the well-known ones, which what is written filters; and what opens it. */
function AddSource() {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const connected = useConnected()
  const { source, chosen, secret } = addition
  const wanted = source.trim()
  const problem = wanted === '' ? undefined : sourceProblem(wanted)
  const wrongSecret = secretProblem(addition)
  const canLook = connected && wanted !== '' && problem === undefined && wrongSecret === undefined && wanted !== chosen
  const look = () => {
    if (canLook) write({ chosen: wanted, contextSize: undefined })
  }
  // The button cannot be pressed again, so that the focus would be lost with it.
  const form = useRef<HTMLFormElement>(null)
  const press = () => {
    look()
    form.current?.querySelector('input')?.focus()
  }
  return (
    <>
      <Form ref={form} className={styles['source']} onDone={look}>
        <TextInput
          label={addWords.source}
          value={source}
          onChange={(text) => {
            const isWhole = isPasted(source, text) && secretProblem({ ...written(text), secret }) === undefined
            write({ ...written(text), chosen: isWhole ? text.trim() : undefined, contextSize: undefined })
          }}
          placeholder={addWords.sourceHint}
          help={addWords.sourceHelp}
          problem={problem}
        />
        <Button disabled={!canLook} onPress={press}>
          {addWords.look}
        </Button>
      </Form>
      {takesSecret(addition) && (
        <Form onDone={look}>
          <TextInput
            label={addWords.secret}
            value={secret}
            onChange={(text) => write({ secret: text, chosen: undefined, contextSize: undefined })}
            help={addWords.secretHelp}
            problem={wrongSecret}
          />
        </Form>
      )}
      {chosen === undefined && <Offers words={wanted} />}
    </>
  )
}

const written = (source: string) => ({ source, isFromStore: false })

/** Those that have every word of what is written. */
function Offers({ words }: { readonly words: string }) {
  const trust = useTrust()
  const write = useWindow((state) => state.writeAddition)
  const { answer, problem } = useAnswer({ name: 'models' }, [useSnapshot(modelSigns)])
  const stored = (answer?.models ?? []).filter(
    ({ state, source, name }) =>
      state === 'complete' &&
      source !== '' &&
      (trust === 'shell' || !isLocalSource(source)) &&
      hasWords(words, [name, source]),
  )
  const known = catalogue.filter(({ name, title }) => hasWords(words, [name, title]))
  return (
    <>
      {problem !== undefined && <Said look="quiet" text={problem} />}
      <Choices
        title={addWords.inStore}
        choices={stored.map((model) => ({ id: model.path, name: model.name, text: addWords.stored(model) }))}
        onChoose={(id) => {
          const model = stored.find(({ path }) => path === id)
          if (model !== undefined) write({ source: model.source, chosen: model.source, isFromStore: true })
        }}
      />
      <Choices
        title={addWords.wellKnown}
        choices={known.map((entry) => ({ id: entry.name, name: entry.title, text: addWords.known(entry) }))}
        onChoose={(name) => write({ ...written(name), chosen: name })}
      />
      {stored.length + known.length === 0 && <Said look="quiet" text={addWords.noMatch} />}
    </>
  )
}

/** What is known of one source: which files it offers, or whether its model fits. */
function AskAboutModel({ source }: { readonly source: string }) {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const names = nameFields(addition, { services, cluster })
  const { answer, problem, isCurrent, again } = useAnswer(
    {
      name: 'fit',
      source,
      ...secretOf(addition),
      ...(names.problems.namespace === undefined && { namespace: names.namespace }),
      ...(addition.contextSize !== undefined && { contextSize: addition.contextSize }),
    },
    [memory?.budgetBytes, memory?.modelsBytes],
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
          <Banner tone="bad" actions={<Button onPress={again}>{addWords.again}</Button>}>
            <p>{problem}</p>
          </Banner>
        )}
        {answer?.kind === 'choose' && <Said text={answer.message} />}
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

interface ApplyModelProps {
  readonly model: FittedModelView
  readonly names: NameFields
  /** Absent while it is not known. */
  readonly verdict: FitVerdict | undefined
}

/** What it is called, what is created, and the button that creates it. */
function ApplyModel({ model, names, verdict }: ApplyModelProps) {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const writeCreated = useWindow((state) => state.writeCreated)
  const { pending, disabled, ask } = useRequest(additionRequests.apply)
  const { created } = addition
  const application = applicationOf(addition, names, model.source)
  const apply = async () => {
    if (application === undefined || disabled || pending) return
    const { namespace, name } = application
    if (await ask({ name: 'applyModel', application })) writeCreated(addition, { namespace, name })
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
            <Said look="quiet" text={addWords.yamlHelp} />
            <Command text={applicationYaml(application)} label={addWords.yaml} copyLabel={addWords.copyYaml} />
          </Folded>
        )}
      </Card>
      <Answer about={additionRequests.apply} />
      <BottomBar>
        {created !== undefined && <p role="status">{addWords.created(created.name)}</p>}
        <Buttons>
          <Button
            look="prominent"
            disabled={application === undefined || disabled || created !== undefined}
            pending={pending}
            onPress={() => void apply()}
          >
            {pending ? addWords.adding : addWord(verdict)}
          </Button>
        </Buttons>
      </BottomBar>
    </>
  )
}

function addWord(verdict: FitVerdict | undefined): string {
  if (verdict === undefined || verdict === 'fits') return addWords.add
  return verdict === 'doesNotFit' ? addWords.addInVain : addWords.addAnyway
}

interface Choice {
  readonly id: string
  readonly name: string
  /** Beside the name. */
  readonly text: string
}

interface ChoicesProps {
  readonly title: string
  readonly choices: readonly Choice[]
  readonly chosen?: string | undefined
  readonly onChoose: (id: string) => void
}

/** One of several; nothing where there are none. */
function Choices({ title, choices, chosen, onChoose }: ChoicesProps) {
  if (choices.length === 0) return null
  return (
    <div>
      <h3 className={styles['choicesTitle']}>{title}</h3>
      <ListBox
        aria-label={title}
        className={classNames(styles['choices'])}
        items={choices}
        selectionMode="single"
        selectedKeys={chosen === undefined ? [] : [chosen]}
        onSelectionChange={(keys) => {
          const id = keys === 'all' ? undefined : [...keys].map(String)[0]
          if (id !== undefined) onChoose(id)
        }}
      >
        {({ name, text }) => (
          <ListBoxItem textValue={name} className={classNames(styles['choice'])}>
            <LongName name={name} />
            <span className={styles['text']}>{text}</span>
          </ListBoxItem>
        )}
      </ListBox>
    </div>
  )
}
