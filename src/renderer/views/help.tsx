import { strToU8, zipSync } from 'fflate'
import { useEffect, useRef, useState } from 'react'
import { LinkError } from '../../contract/client.ts'
import {
  type DiagnosticFile,
  type DoctorFinding,
  type FromClusterView,
  doctorSubjects,
  partsOfPage,
  sectionOf,
} from '../../contract/doctor.ts'
import { formatBytes } from '../../contract/format.ts'
import { summaryWords } from '../../contract/words.ts'
import { Card, Folded, Note, ViewPage } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { Markdown } from '../components/markdown.tsx'
import { ErrorGlyph, NoteGlyph, StepGlyph, WarningGlyph } from '../components/glyph.tsx'
import { Said, Sentence, Spoken } from '../components/text.tsx'
import { pages } from '../docs-pages.ts'
import { useConnected, useLink, useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { helpWords, subjectWords, verdictWords } from '../words/help.ts'
import { Answer, AskButton } from './answer.tsx'
import styles from './help.module.css'

const about = 'doctor'

/** What the doctor finds: first what is to be mended, each with its buttons, then all that is in order. */
export function Help() {
  const { answer: report, problem, isAsking: isLooking, again: look } = useAnswer({ name: 'doctor' })
  const findings = report?.findings ?? []
  const toMend = findings.filter(({ verdict }) => verdict === 'fail' || verdict === 'warn').toSorted(failuresFirst)
  const others = findings.filter((finding) => !toMend.includes(finding))
  return (
    <ViewPage id="help" title={helpWords.title}>
      <p>{helpWords.intro}</p>
      <div className={styles['first']}>
        <Button pending={isLooking} onPress={look}>
          {helpWords.again}
        </Button>
        <p role="status" className={styles['note']}>
          {isLooking ? helpWords.looking : report && `${summaryWords.doctor(report.findings)}.`}
        </p>
      </div>
      <Note>{problem}</Note>
      <Answer about={about} />
      {report !== undefined && toMend.length === 0 && <Note>{helpWords.allWell}</Note>}
      {toMend.length > 0 && (
        <ul className={styles['findings']} aria-label={helpWords.toMend}>
          {toMend.map((finding) => (
            <li key={finding.id} className={styles['finding']}>
              <Trouble finding={finding} onAnswer={look} />
            </li>
          ))}
        </ul>
      )}
      {others.length > 0 && (
        <Folded title={helpWords.inOrder(others.length)}>
          {doctorSubjects.map((subject) => (
            <InOrder key={subject} title={subjectWords[subject]} of={others.filter((one) => one.subject === subject)} />
          ))}
        </Folded>
      )}
      <FromCluster />
      <Unserved />
      <SaveReport />
    </ViewPage>
  )
}

/** Has a Pod ask a service that is published; cancelled, the Pod is deleted at once. */
function FromCluster() {
  const link = useLink()
  const services = useSnapshot((snapshot) => snapshot.services).filter(({ steps }) => steps.published.status === 'done')
  const [asked, setAsked] = useState<{ readonly uid: string; readonly cancel: () => void }>()
  const [found, setFound] = useState<Readonly<Record<string, FromClusterView>>>({})
  const cancel = useRef<() => void>(undefined)
  useEffect(() => () => cancel.current?.(), [])
  if (services.length === 0) return null
  const ask = async ({ uid, namespace, name }: (typeof services)[number]) => {
    const leaving = new AbortController()
    cancel.current = () => leaving.abort()
    setAsked({ uid, cancel: cancel.current })
    const keep = (view: FromClusterView) => setFound((before) => ({ ...before, [uid]: view }))
    try {
      keep(await link.query({ name: 'fromCluster', service: { namespace, name } }, leaving.signal))
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      if (!leaving.signal.aborted) keep({ hop: 'pod', isReached: false, says: error.message })
    } finally {
      setAsked(undefined)
    }
  }
  return (
    <Folded title={helpWords.fromCluster}>
      <p>{helpWords.fromClusterIntro}</p>
      <ul className={styles['rows']}>
        {services.map((service) => {
          const view = found[service.uid]
          const isAsked = asked?.uid === service.uid
          return (
            <li key={service.uid} className={styles['what']}>
              <p className={styles['asks']}>
                {service.namespace}/{service.name}
              </p>
              <div className={styles['first']}>
                <Button
                  pending={isAsked}
                  disabled={asked !== undefined && !isAsked}
                  label={helpWords.askPodFor(service.name)}
                  onPress={() => void ask(service)}
                >
                  {helpWords.askPod}
                </Button>
                {isAsked && <Button onPress={asked.cancel}>{helpWords.cancel}</Button>}
              </div>
              <p role="status" className={styles['note']}>
                {isAsked ? helpWords.asking : view && <Sentence text={view.says} />}
              </p>
            </li>
          )
        })}
      </ul>
    </Folded>
  )
}

/** The InferenceServices of the cluster that other machines or nobody serves. */
function Unserved() {
  const revision = useSnapshot((snapshot) => snapshot.revision)
  const { answer } = useAnswer({ name: 'unserved' }, [revision])
  if (answer === undefined || answer.services.length === 0) return null
  return (
    <Folded title={helpWords.unserved(answer.services.length)}>
      <ul className={styles['rows']}>
        {answer.services.map(({ namespace, name, message }) => (
          <li key={`${namespace}/${name}`} className={styles['what']}>
            <p className={styles['asks']}>
              {namespace}/{name}
            </p>
            <Said look="quiet" text={message} />
          </li>
        ))}
      </ul>
    </Folded>
  )
}

/** What is to be sent is shown before it is saved; it is fetched only then, since it takes a look at everything. */
function SaveReport() {
  const link = useLink()
  const connected = useConnected()
  const [files, setFiles] = useState<readonly DiagnosticFile[]>()
  const [problem, setProblem] = useState<string>()
  const [isAsking, setAsking] = useState(false)
  const collect = async () => {
    setAsking(true)
    setProblem(undefined)
    try {
      setFiles((await link.query({ name: 'diagnostics' })).files)
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      setProblem(error.message)
    } finally {
      setAsking(false)
    }
  }
  return (
    <Card title={helpWords.report} level={3}>
      <p>{helpWords.reportIntro}</p>
      <Note>{problem}</Note>
      {files !== undefined && (
        <ul className={styles['files']} aria-label={helpWords.reportFiles}>
          {files.map(({ name, text }) => (
            <li key={name}>
              {name} <span className={styles['note']}>{formatBytes(new Blob([text]).size)}</span>
            </li>
          ))}
        </ul>
      )}
      <div className={styles['first']}>
        {files === undefined ? (
          <Button pending={isAsking} disabled={!connected} onPress={() => void collect()}>
            {helpWords.collect}
          </Button>
        ) : (
          <>
            <Button onPress={() => save(files)}>{helpWords.save}</Button>
            <Button onPress={() => setFiles(undefined)}>{helpWords.discard}</Button>
          </>
        )}
      </div>
    </Card>
  )
}

const keptMs = 60_000

/** As a download of the browser or the app, which asks where to. */
function save(files: readonly DiagnosticFile[]): void {
  const zip = zipSync(Object.fromEntries(files.map(({ name, text }) => [name, strToU8(text)])))
  const url = URL.createObjectURL(new Blob([new Uint8Array(zip)], { type: 'application/zip' }))
  const anchor = document.createElement('a')
  anchor.href = url
  anchor.download = `metalbar-report-${new Date().toISOString().slice(0, 10)}.zip`
  anchor.click()
  // Safari reads it only after this call.
  setTimeout(() => URL.revokeObjectURL(url), keptMs)
}

const failuresFirst = (a: DoctorFinding, b: DoctorFinding): number =>
  Number(b.verdict === 'fail') - Number(a.verdict === 'fail')

interface TroubleProps {
  readonly finding: DoctorFinding
  /** What the agent was asked to mend is answered. */
  readonly onAnswer: () => void
}

function Trouble({ finding: { asks, says, verdict, action, page }, onAnswer }: TroubleProps) {
  return (
    <>
      <span className={styles['glyph']}>{verdict === 'fail' ? <ErrorGlyph /> : <WarningGlyph />}</span>
      <div className={styles['what']}>
        <h3 className={styles['asks']}>
          <Spoken>{verdictWords[verdict]}: </Spoken>
          {asks}
        </h3>
        <Said text={says} />
        {action !== undefined && <Said text={action.text} />}
        {action?.shell !== undefined && action.fix === undefined && <Command text={action.shell} />}
        {action?.fix !== undefined && (
          <AskButton about={about} command={action.fix.command} onAnswer={onAnswer}>
            {action.fix.label}
          </AskButton>
        )}
        <More asks={asks} page={page} />
      </div>
    </>
  )
}

/** What the documentation says about a question; it comes with the app, so that it is there without a network. */
function More({ asks, page }: Pick<DoctorFinding, 'asks' | 'page'>) {
  const [text, setText] = useState<string>()
  const { file, anchor } = partsOfPage(page)
  const open = async () => {
    const loaded = await pages[file]?.().catch(() => undefined)
    setText(loaded ? sectionOf(loaded.default, anchor) : helpWords.pageMissing)
  }
  return (
    <>
      <Button
        look="link"
        label={helpWords.moreAbout(asks)}
        onPress={() => (text === undefined ? void open() : setText(undefined))}
      >
        {text === undefined ? helpWords.more : helpWords.less}
      </Button>
      {text !== undefined && <Markdown text={text} />}
    </>
  )
}

function InOrder({ title, of }: { readonly title: string; readonly of: readonly DoctorFinding[] }) {
  if (of.length === 0) return null
  return (
    <Card title={title}>
      <ul className={styles['rows']}>
        {of.map(({ id, asks, says, verdict }) => (
          <li key={id} className={styles['row']}>
            <span className={styles['glyph']}>{verdict === 'pass' ? <StepGlyph status="done" /> : <NoteGlyph />}</span>
            <div className={styles['what']}>
              <p>
                <Spoken>{verdictWords[verdict]}: </Spoken>
                {asks}
              </p>
              <Said look="quiet" text={says} />
            </div>
          </li>
        ))}
      </ul>
    </Card>
  )
}
