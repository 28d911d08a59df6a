import type { ReactNode } from 'react'
import { type ClusterView, looksLikeProduction, rightsCommands } from '../../contract/cluster.ts'
import { Banner, Buttons, Card, Folded } from '../components/blocks.tsx'
import { Button, Command, CommandText, CopyButton } from '../components/buttons.tsx'
import { StepGlyph } from '../components/glyph.tsx'
import { Said, Sentence } from '../components/text.tsx'
import {
  type ClusterObstacle,
  contextCommand,
  definitionsCommand,
  installCommand,
  loginCommand,
  obstacleOf,
} from '../first-run.ts'
import { useQuestion } from '../focus.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, usePressed, useReturns } from '../use-answer.ts'
import { firstRunWords, placeWords } from '../words/first-run.ts'
import { Answer, AskButton } from './answer.tsx'
import { OpenLocalNetwork } from './header.tsx'
import { InstallLine } from './install-line.tsx'
import styles from './first-run.module.css'

/** What this machine has and what it lacks, while there is no service that shows it; each lack with what can be done about it. */
export function FirstRun() {
  return (
    <Card title={firstRunWords.title} level={2}>
      <ul className={styles['rows']}>
        <ClusterRow />
        <AddressRow />
        <RuntimeRows />
        <StoreRow />
      </ul>
    </Card>
  )
}

function RuntimeRows() {
  const isMac = useSnapshot(({ host }) => host.platform === 'darwin')
  const { answer, problem } = useAnswer({ name: 'runtimes' }, [useReturns()])
  if (answer === undefined) {
    const status = problem === undefined ? 'active' : 'failed'
    return <Row name={firstRunWords.runtimes} value={problem ?? firstRunWords.looking} status={status} />
  }
  // Most models are GGUF: a person without MLX models misses no other runtime.
  const shown = answer.runtimes.filter(({ name, path }) => path !== undefined || name === 'llama-server')
  return shown.map((runtime) => {
    const { name, path, message, install } = runtime
    return (
      <Row
        key={name}
        name={name}
        value={firstRunWords.runtime(runtime)}
        status={path === undefined ? 'failed' : 'done'}
      >
        {message !== undefined && <Said look="quiet" text={message} />}
        {install !== undefined && <InstallLine name={name} line={install} />}
        {path === undefined && install === undefined && (
          <>
            {!isMac && <Said look="quiet" text={firstRunWords.brewOnLinux} />}
            <Command text={firstRunWords.brew} />
          </>
        )}
      </Row>
    )
  })
}

function StoreRow() {
  const { answer, problem } = useAnswer({ name: 'models' }, [useReturns()])
  return (
    <Row
      name={firstRunWords.store}
      value={answer === undefined ? (problem ?? firstRunWords.looking) : firstRunWords.inStore(answer)}
      status={answer !== undefined ? 'done' : problem === undefined ? 'active' : 'failed'}
    />
  )
}

const about = 'cluster'

/** Which cluster this machine serves, or what keeps it from that. The reason stands above, beside the connection. */
function ClusterRow() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const { state, context, server, namespace, message } = cluster
  const obstacle = obstacleOf(cluster)
  if (obstacle !== undefined) {
    return (
      <Row name={firstRunWords.cluster} value={firstRunWords.obstacle(context, obstacle)} status="failed">
        <WayOn obstacle={obstacle} cluster={cluster} />
        <Answer about={about} />
      </Row>
    )
  }
  if (state === 'connecting') {
    return <Row name={firstRunWords.cluster} value={firstRunWords.connecting(context)} status="active" />
  }
  return (
    <>
      <Row name={firstRunWords.cluster} value={firstRunWords.context(context, server)} status="done" />
      <Row name={firstRunWords.namespace} value={namespace ?? firstRunWords.allNamespaces} status="done">
        <Said look="quiet" text={message} />
      </Row>
    </>
  )
}

function WayOn({ obstacle, cluster }: { readonly obstacle: ClusterObstacle; readonly cluster: ClusterView }) {
  switch (obstacle) {
    case 'noContext':
      return <ChooseContext />
    case 'noAnswer':
      return <TryNow />
    case 'localNetwork':
      return (
        <Buttons>
          <OpenLocalNetwork />
          <AskButton about={about} command={{ name: 'resync' }}>
            {firstRunWords.tryNow}
          </AskButton>
        </Buttons>
      )
    case 'noDefinitions':
      return (
        <>
          <Said look="quiet" text={firstRunWords.install} />
          <Command text={installCommand(cluster.context)} />
          <Said look="quiet" text={firstRunWords.definitions} />
          <Command text={definitionsCommand(cluster.context)} copyLabel={firstRunWords.copyDefinitions} />
          <TryNow />
        </>
      )
    case 'noLogin':
      return (
        <>
          <Said look="quiet" text={firstRunWords.login} />
          <Command text={loginCommand(cluster.context)} />
          <TryNow />
        </>
      )
    case 'noRights':
      return (
        <>
          <Rights cluster={cluster} />
          <TryNow />
        </>
      )
  }
}

const TryNow = () => (
  <Buttons>
    <AskButton about={about} command={{ name: 'resync' }}>
      {firstRunWords.tryNow}
    </AskButton>
  </Buttons>
)

/** The commands that grant the missing rights; their YAML is folded, since most people only copy it. */
function Rights({ cluster }: { readonly cluster: ClusterView }) {
  const { needed, further } = rightsCommands(cluster)
  return (
    <>
      <Said look="quiet" text={firstRunWords.rights} />
      <Buttons>
        <CopyButton text={needed} label={firstRunWords.copyRights}>
          {firstRunWords.copyRights}
        </CopyButton>
      </Buttons>
      <Folded title={firstRunWords.showRights}>
        <CommandText text={needed} />
      </Folded>
      <Folded title={firstRunWords.furtherRights}>
        {further.map((text, index) => (
          <Command key={text} text={text} copyLabel={firstRunWords.copyFurther(index + 1)} />
        ))}
      </Folded>
    </>
  )
}

/** Where there is no kubeconfig to choose from, it can be read again. */
function ChooseContext() {
  const trust = useTrust()
  const { answer, problem } = useAnswer({ name: 'contexts' }, [useReturns()])
  const contexts = problem === undefined ? (answer?.contexts ?? []) : []
  if (contexts.length === 0) {
    return (
      <Buttons>
        <AskButton about={about} command={{ name: 'reloadKubeconfig' }}>
          {firstRunWords.reload}
        </AskButton>
      </Buttons>
    )
  }
  if (trust === 'page') {
    return (
      <>
        <Said look="quiet" text={firstRunWords.chooseInTerminal} />
        {contexts.map(({ name }) => (
          <Command key={name} text={contextCommand(name)} copyLabel={firstRunWords.copyUse(name)} />
        ))}
      </>
    )
  }
  return (
    <>
      <Said look="quiet" text={firstRunWords.chooseContext} />
      <Buttons>
        {contexts.map((context) => (
          <ContextChoice key={context.name} context={context} about={about} leaves={false}>
            {firstRunWords.useContext(context.name)}
          </ContextChoice>
        ))}
      </Buttons>
    </>
  )
}

interface ContextChoiceProps {
  readonly context: { readonly name: string; readonly server: string }
  /** What the request is named by. */
  readonly about: string
  /** Another cluster is served now, which would be left. */
  readonly leaves: boolean
  /** What the button is called that chooses it, where its text alone does not say that. */
  readonly label?: string
  /** The text of that button. */
  readonly children: string
}

/** Serves the cluster of one context; asked first where that stops something, or reaches into production. */
export function ContextChoice({ context, about, leaves, children, label = children }: ContextChoiceProps) {
  const { name, server } = context
  const ask = useWindow((state) => state.ask)
  const isProduction = looksLikeProduction(name)
  const command = {
    name: 'selectContext',
    context: name,
    ...(isProduction && { accept: ['production' as const] }),
  } as const
  const { pending, disabled } = usePressed(about, command)
  const question = useQuestion()
  const choose = () => {
    question.close()
    void ask(about, command)
  }
  if (!question.isAsked) {
    return (
      <Button
        disabled={disabled}
        pending={pending}
        takesFocus={question.isOver}
        label={label}
        onPress={leaves || isProduction ? question.open : choose}
      >
        {children}
      </Button>
    )
  }
  return (
    <div
      className={styles['question']}
      role="group"
      aria-label={placeWords.serveOne(name)}
      onKeyDown={question.onKeyDown}
    >
      <Banner
        tone={isProduction ? 'warn' : 'note'}
        actions={
          <>
            <Button disabled={disabled} onPress={choose}>
              {placeWords.serveNow}
            </Button>
            <Button takesFocus onPress={question.close}>
              {placeWords.stay}
            </Button>
          </>
        }
      >
        {isProduction && <p>{placeWords.production(name, server)}</p>}
        {leaves && <p>{placeWords.serveSure}</p>}
      </Banner>
    </div>
  )
}

/** Where pods reach this machine; where that is not known, what it could be. */
function AddressRow() {
  const { address, message } = useSnapshot(({ host }) => host)
  const { answer } = useAnswer({ name: 'hostAddresses' }, [address])
  if (address !== undefined) {
    const network = answer?.addresses.find(({ inUse }) => inUse)?.interface
    return <Row name={firstRunWords.address} value={firstRunWords.at(address, network)} status="done" />
  }
  const fit = answer?.addresses.filter(({ unfit }) => unfit === undefined) ?? []
  return (
    <Row name={firstRunWords.address} value={firstRunWords.noAddress} status="failed">
      {fit.length === 0 && <Said look="quiet" text={message} />}
      <Buttons>
        {fit.map((one) => (
          <AskButton key={one.address} about="address" command={{ name: 'setHostAddress', address: one.address }}>
            {firstRunWords.useAddress(one.address, one.interface)}
          </AskButton>
        ))}
      </Buttons>
      <Answer about="address" />
    </Row>
  )
}

interface RowProps {
  readonly name: string
  readonly value: string
  readonly status: 'done' | 'active' | 'failed'
  /** What can be done. */
  readonly children?: ReactNode
}

/** One thing that this machine has or lacks. */
export function Row({ name, value, status, children }: RowProps) {
  return (
    <li className={styles['row']}>
      <StepGlyph status={status} />
      <div className={styles['what']}>
        <p>
          <strong className={styles['name']}>{name}</strong> <Sentence text={value} />
        </p>
        {children}
      </div>
    </li>
  )
}
