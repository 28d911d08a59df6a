import { type ReactNode, useState } from 'react'
import { addressAndPort } from '../../contract/addresses.ts'
import { localUrl } from '../../contract/ask.ts'
import type { CrashView, RuntimeFigures, ServiceMemory, ServiceView } from '../../contract/service.ts'
import { Banner, Card, Facts, Folded } from '../components/blocks.tsx'
import { Command, CommandText, CopyButton } from '../components/buttons.tsx'
import { ChoiceRow } from '../components/fields.tsx'
import { ErrorGlyph, WarningGlyph } from '../components/glyph.tsx'
import { Age, Said, Sentence, Until } from '../components/text.tsx'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { type ClientName, clientNames, type ClientOf, clientTexts } from '../words/clients.ts'
import {
  addressWords,
  crashWords,
  estimateWords,
  memoryWords,
  newsWords,
  serverWords,
  workWords,
} from '../words/services.ts'
import { timeWords } from '../words/window.ts'
import styles from './service-cards.module.css'

interface CrashProps {
  readonly service: ServiceView
  readonly crash: CrashView
}

/** How the last server ended, what that most likely means, and what it printed before. */
export function Crash({ service, crash }: CrashProps) {
  const { at, message, guess, firstError } = crash
  const { state, retryAt } = service
  const isOver = state === 'ready'
  return (
    <section className={isOver ? styles['over'] : styles['crash']} aria-label={crashWords.title}>
      <h3 className={styles['title']}>
        <ErrorGlyph />
        {crashWords.crashed(crash, isOver)}
      </h3>
      {firstError !== undefined && <pre className={styles['error']}>{firstError}</pre>}
      <Said text={guess ?? message} />
      <Facts
        facts={[
          [crashWords.how, crashWords.end(crash)],
          [crashWords.when, <Age key="when" since={at} words={timeWords.ago} />],
          [crashWords.memory, crashWords.held(crash)],
          retryAt !== undefined && [crashWords.nextAttempt, <Until key="next" at={retryAt} />],
        ]}
      />
      <LastLines service={service} crash={crash} />
    </section>
  )
}

function LastLines({ service: { namespace, name }, crash }: CrashProps) {
  const { answer, problem } = useAnswer({ name: 'server', service: { namespace, name } }, [crash.at])
  const lines = answer?.crashLines ?? []
  if (lines.length === 0) return problem === undefined ? null : <Said look="quiet" text={problem} />
  const title = crashWords.lastLines(lines.length)
  return (
    <Folded title={title}>
      <pre className={styles['lines']} tabIndex={0} aria-label={title}>
        {lines.join('\n')}
      </pre>
    </Folded>
  )
}

/** How a server does its work, as far as its runtime tells. */
export function ServiceWork({ service: { uid, pid } }: { readonly service: ServiceView }) {
  const runtime = useSnapshot(({ figures }) => figures[uid]?.runtime)
  const watts = useSnapshot(({ figures }) => figures[uid]?.powerShareWatts)
  if (pid === undefined || runtime === undefined) return null
  return (
    <Card title={workWords.title}>
      {runtime.slow !== undefined && <Banner tone="warn">{runtime.slow}</Banner>}
      {runtime.state === 'notReported' ? (
        <p>{runtime.message ?? workWords.tellsNothing}</p>
      ) : (
        <Facts facts={factsOf(runtime)} />
      )}
      <Facts facts={[[workWords.power, workWords.powerShare(watts)]]} />
    </Card>
  )
}

function factsOf(runtime: RuntimeFigures): [name: string, value: ReactNode][] {
  const { lastRequestAt } = runtime
  return [
    [workWords.generation, workWords.rate(runtime.generatedTokensPerSecond)],
    [workWords.prompts, workWords.rate(runtime.promptTokensPerSecond)],
    [workWords.requests, workWords.requestCounts(runtime)],
    [workWords.kvUse, workWords.share(runtime.kvUse)],
    [
      workWords.lastRequest,
      lastRequestAt === undefined ? workWords.unknown : <Age key="last" since={lastRequestAt} words={timeWords.ago} />,
    ],
  ]
}

/** Where the server is reached: by pods, and from this Mac. */
export function ServiceAddresses({ service }: { readonly service: ServiceView }) {
  const { uid, name, url, port, address } = service
  const proxy = useSnapshot(({ host }) => host.clientProxy)
  const clients = useSnapshot(({ figures }) => figures[uid]?.gateway)
  if (url === undefined && port === undefined) return null
  const server = localUrl(service, undefined)
  const local = localUrl(service, proxy)
  return (
    <Card title={addressWords.title}>
      <Facts
        facts={[
          [addressWords.pods, url === undefined ? addressWords.notPublished : <CopyUrl key="pods" url={url} />],
          address !== undefined &&
            port !== undefined && [
              addressWords.published,
              <CopyUrl key="published" url={`http://${addressAndPort(address, port)}`} />,
            ],
          [addressWords.here, local === undefined ? addressWords.notRunning : <CopyUrl key="here" url={local} />],
          server !== undefined && server !== local && [addressWords.server, <CopyUrl key="server" url={server} />],
          local !== undefined && proxy !== undefined && [addressWords.clients, addressWords.from(clients)],
        ]}
      />
      {url !== undefined && (
        <Command text={addressWords.curl(url)} label={addressWords.podsCurl} copyLabel={addressWords.copyPodsCurl} />
      )}
      {local !== undefined && <UseFrom of={{ url: local, model: name }} />}
    </Card>
  )
}

/** What is pasted to use the model from one of the programs that people use most. */
function UseFrom({ of }: { readonly of: ClientOf }) {
  const [client, setClient] = useState<ClientName>('curl')
  return (
    <>
      <ChoiceRow<ClientName>
        title={addressWords.useFrom}
        help={addressWords.ownKey}
        words={clientNames}
        value={client}
        onChange={setClient}
      />
      <Command text={clientTexts[client](of)} label={client} copyLabel={addressWords.copyFor(client)} />
    </>
  )
}

export const CopyUrl = ({ url }: { readonly url: string }) => (
  <CopyButton text={url} label={addressWords.copy(url)}>
    <Sentence text={url} />
  </CopyButton>
)

/** What a server was expected to need, in items, beside what it was measured to hold. */
export function ServiceMemoryCard({ service: { uid, memory } }: { readonly service: ServiceView }) {
  const footprint = useSnapshot(({ figures }) => figures[uid]?.footprintBytes)
  const counted = useSnapshot(({ figures }) => figures[uid]?.heldBytes)
  if (memory === undefined && footprint === undefined) return null
  return (
    <Card title={estimateWords.title}>
      <Facts
        facts={[
          [estimateWords.measured, memoryWords.size(footprint)],
          [estimateWords.estimated, memoryWords.size(memory?.needBytes)],
          counted !== undefined && [estimateWords.counted, memoryWords.size(counted)],
        ]}
      />
      {counted !== undefined && <Said look="quiet" text={estimateWords.whyCounted} />}
      {memory?.items !== undefined && <Items items={memory.items} />}
      {memory?.guess !== undefined && <Said look="quiet" text={memory.guess} />}
      {memory?.notes?.map((note) => (
        <Said key={note} look="quiet" text={note} />
      ))}
    </Card>
  )
}

/** In the order in which they are drawn. */
const itemNames = ['weights', 'kv', 'compute', 'promptCache', 'mmproj', 'draft', 'adapters', 'overhead'] as const

function Items({ items }: { readonly items: NonNullable<ServiceMemory['items']> }) {
  const parts = itemNames
    .map((key) => ({ name: estimateWords.items[key], bytes: items[key] ?? 0 }))
    .filter(({ bytes }) => bytes > 0)
  const largest = Math.max(...parts.map(({ bytes }) => bytes), 1)
  return (
    <ul className={styles['items']} aria-label={estimateWords.estimated}>
      {parts.map(({ name, bytes }) => (
        <li key={name} className={styles['item']}>
          <span>{name}</span>
          <span className={styles['bar']}>
            <span className={styles['part']} style={{ width: `${(100 * bytes) / largest}%` }} />
          </span>
          <span className={styles['size']}>{memoryWords.size(bytes)}</span>
        </li>
      ))}
    </ul>
  )
}

/** What is too long for every snapshot: how the server was started. */
export function ServerDetails({ service: { namespace, name, pid } }: { readonly service: ServiceView }) {
  const { answer, problem } = useAnswer({ name: 'server', service: { namespace, name } }, [pid])
  return (
    <>
      {answer?.commandLine !== undefined && (
        <Card title={serverWords.commandLine}>
          {answer.isUnquoted === true ? (
            <>
              <Said look="quiet" text={serverWords.unquoted} />
              <CommandText text={answer.commandLine} />
            </>
          ) : (
            <Command text={answer.commandLine} copyLabel={serverWords.copyCommandLine} />
          )}
        </Card>
      )}
      {problem !== undefined && <Said look="quiet" text={problem} />}
    </>
  )
}

const minuteMs = 60_000
const shownEvents = 8

/** What the cluster says of a service. It is asked when the service is another, and each minute, since others write there too. */
export function ServiceNews({ service }: { readonly service: ServiceView }) {
  const { namespace, name } = service
  const minute = useSnapshot(({ now }) => Math.floor(Date.parse(now) / minuteMs))
  return (
    <>
      <Conditions of={{ namespace, name }} signs={[service, minute]} />
      <Events of={{ namespace, name }} signs={[service, minute]} />
    </>
  )
}

interface NewsProps {
  readonly of: { readonly namespace: string; readonly name: string }
  readonly signs: readonly unknown[]
}

function Conditions({ of, signs }: NewsProps) {
  const { answer, problem } = useAnswer({ name: 'conditions', service: of }, signs)
  if (answer === undefined && problem === undefined) return null
  return (
    <Card title={newsWords.conditions}>
      {problem !== undefined && <Said look="small" text={problem} />}
      {answer?.conditions.length === 0 && <Said look="small" text={newsWords.noConditions} />}
      <ul className={styles['list']}>
        {answer?.conditions.map(({ type, status, reason, message, since }) => (
          <Item
            key={type}
            title={`${type}: ${status}`}
            aside={reason}
            time={since !== undefined && <Age since={since} words={timeWords.lasts} />}
          >
            {message}
          </Item>
        ))}
      </ul>
    </Card>
  )
}

function Events({ of, signs }: NewsProps) {
  const { answer, problem } = useAnswer({ name: 'events', service: of, limit: shownEvents }, signs)
  if (answer === undefined && problem === undefined) return null
  return (
    <Card title={newsWords.events}>
      {problem !== undefined && <Said look="small" text={problem} />}
      {answer?.events.length === 0 && <Said look="small" text={newsWords.noEvents} />}
      <ul className={styles['list']}>
        {answer?.events.map((event, index) => (
          <Item
            key={`${event.at} ${event.reason} ${index}`}
            title={newsWords.event(event)}
            isWarning={event.type === 'Warning'}
            aside={event.source}
            time={<Age since={event.at} words={timeWords.ago} />}
          >
            {event.message}
          </Item>
        ))}
      </ul>
      {answer?.hasMore === true && <Said look="small" text={newsWords.more(shownEvents)} />}
    </Card>
  )
}

interface ItemProps {
  readonly title: string
  readonly isWarning?: boolean
  readonly aside: string
  readonly time: ReactNode
  readonly children: string
}

const Item = ({ title, isWarning = false, aside, time, children }: ItemProps) => (
  <li>
    <p className={styles['first']}>
      {isWarning && <WarningGlyph />}
      <strong className={styles['serviceNewsTitle']}>{title}</strong>
      <span className={styles['serviceNewsNote']}>{aside}</span>
      <span className={styles['time']}>{time}</span>
    </p>
    {children !== '' && <Said text={children} />}
  </li>
)
