import type { ClusterView } from '../../contract/cluster.ts'
import { CopyButton } from '../components/copy-button.tsx'
import { firstServiceCommand } from '../first-service.ts'
import styles from './no-services.module.css'

/** Only a cluster that answers can say that there is nothing. */
export function NoServices({ cluster }: { readonly cluster: ClusterView }) {
  if (cluster.state !== 'live') {
    return <p className={styles['unknown']}>No service is known while the cluster is not watched.</p>
  }
  const where = cluster.namespace === undefined ? 'in any namespace' : `in namespace ${cluster.namespace}`
  const command = firstServiceCommand(cluster)
  return (
    <div className={styles['empty']}>
      <h1 className={styles['title']}>No service for this machine yet</h1>
      <p>
        There is no InferenceService {where} whose Model says <code>accelerator: metal</code>. This makes a small one:
      </p>
      <pre className={styles['command']} tabIndex={0} aria-label="Command">
        {command}
      </pre>
      <CopyButton text={command} label="Copy command">
        Copy command
      </CopyButton>
    </div>
  )
}
