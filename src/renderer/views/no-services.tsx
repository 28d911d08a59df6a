import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { Folded } from '../components/folded.tsx'
import { firstServiceCommand } from '../first-service.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { addWords } from '../words/add.ts'
import { noServiceWords } from '../words/first-run.ts'
import styles from './no-services.module.css'

/** Only a cluster that answers can say that there is nothing. */
export function NoServices() {
  const add = useWindow((state) => state.add)
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  if (cluster.state !== 'live') return <p className={styles['unknown']}>{noServiceWords.unknown}</p>
  return (
    <div className={styles['empty']}>
      <h2 className={styles['title']}>{noServiceWords.title}</h2>
      <p>
        {noServiceWords.where(cluster.namespace)} <code>{noServiceWords.accelerator}</code>.
      </p>
      <Button look="prominent" onPress={() => add()}>
        {addWords.open}
      </Button>
      <Folded title={noServiceWords.makes}>
        <Command text={firstServiceCommand(cluster)} />
      </Folded>
    </div>
  )
}
