import { Command } from '../components/command.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { useReturns } from '../use-returns.ts'
import { firstRunWords } from '../words/first-run.ts'
import { Card } from './card.tsx'
import { AddressRow } from './first-run-address.tsx'
import { ClusterRow } from './first-run-cluster.tsx'
import styles from './first-run.module.css'
import { Row, RowNote } from './first-run-row.tsx'

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
  return answer.runtimes.map((runtime) => {
    const { name, path, message } = runtime
    return (
      <Row
        key={name}
        name={name}
        value={firstRunWords.runtime(runtime)}
        status={path === undefined ? 'failed' : 'done'}
      >
        {message !== undefined && (
          <RowNote>
            <Sentence text={message} />
          </RowNote>
        )}
        {path === undefined && !isMac && <RowNote>{firstRunWords.brewOnLinux}</RowNote>}
        {path === undefined && <Command text={firstRunWords.brew} />}
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
