import { Button } from '../components/button.tsx'
import { Command, CommandText } from '../components/command.tsx'
import { CopyButton } from '../components/copy-button.tsx'
import { Folded } from '../components/folded.tsx'
import { Sentence } from '../components/sentence.tsx'
import { type ClusterView, rightsCommands } from '../../contract/cluster.ts'
import type { CommandInput } from '../../contract/commands.ts'
import {
  type ClusterObstacle,
  definitionsCommand,
  installCommand,
  loginCommand,
  obstacleOf,
  useContextCommand,
} from '../first-run.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { usePressed } from '../use-pressed.ts'
import { useReturns } from '../use-returns.ts'
import { firstRunWords } from '../words/first-run.ts'
import { Answer } from './answer.tsx'
import { ContextChoice } from './context-choice.tsx'
import { Row, RowButtons, RowNote } from './first-run-row.tsx'

const about = 'cluster'

/** Which cluster this machine serves, or what keeps it from that. The reason stands above, beside the connection. */
export function ClusterRow() {
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
        <RowNote>
          <Sentence text={message} />
        </RowNote>
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
    case 'noDefinitions':
      return (
        <>
          <RowNote>{firstRunWords.install}</RowNote>
          <Command text={installCommand(cluster.context)} />
          <RowNote>{firstRunWords.definitions}</RowNote>
          <Command text={definitionsCommand(cluster.context)} copyLabel={firstRunWords.copyDefinitions} />
          <TryNow />
        </>
      )
    case 'noLogin':
      return (
        <>
          <RowNote>{firstRunWords.login}</RowNote>
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
  <RowButtons>
    <AskButton command={{ name: 'resync' }}>{firstRunWords.tryNow}</AskButton>
  </RowButtons>
)

/** A wall of YAML that most copy unread. */
function Rights({ cluster }: { readonly cluster: ClusterView }) {
  const { needed, further } = rightsCommands(cluster)
  return (
    <>
      <RowNote>{firstRunWords.rights}</RowNote>
      <RowButtons>
        <CopyButton text={needed} label={firstRunWords.copyRights}>
          {firstRunWords.copyRights}
        </CopyButton>
      </RowButtons>
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
      <RowButtons>
        <AskButton command={{ name: 'reloadKubeconfig' }}>{firstRunWords.reload}</AskButton>
      </RowButtons>
    )
  }
  if (trust === 'page') {
    return (
      <>
        <RowNote>{firstRunWords.chooseInTerminal}</RowNote>
        {contexts.map(({ name }) => (
          <Command key={name} text={useContextCommand(name)} copyLabel={firstRunWords.copyUse(name)} />
        ))}
      </>
    )
  }
  return (
    <>
      <RowNote>{firstRunWords.chooseContext}</RowNote>
      <RowButtons>
        {contexts.map((context) => (
          <ContextChoice key={context.name} context={context} about={about} leaves={false}>
            {firstRunWords.useContext(context.name)}
          </ContextChoice>
        ))}
      </RowButtons>
    </>
  )
}

function AskButton({ command, children }: { readonly command: CommandInput; readonly children: string }) {
  const ask = useWindow((state) => state.ask)
  return (
    <Button {...usePressed(about, command)} onPress={() => void ask(about, command)}>
      {children}
    </Button>
  )
}
