import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { firstServiceCommand } from '../first-service.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { addWords } from '../words/add.ts'
import styles from './no-services.module.css'

/** Only a cluster that answers can say that there is nothing. */
export function NoServices() {
  const add = useWindow((state) => state.add)
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  if (cluster.state !== 'live') {
    return <p className={styles['unknown']}>No service is known while the cluster is not watched.</p>
  }
  const where = cluster.namespace === undefined ? 'in any namespace' : `in namespace ${cluster.namespace}`
  return (
    <div className={styles['empty']}>
      <h2 className={styles['title']}>No service for this machine yet</h2>
      <p>
        There is no InferenceService {where} whose Model says <code>accelerator: metal</code>.
      </p>
      <Button look="prominent" onPress={() => add()}>
        {addWords.open}
      </Button>
      <p>Or make a small one in a terminal:</p>
      <Command text={firstServiceCommand(cluster)} />
    </div>
  )
}
