import { Tab, TabList } from 'react-aria-components/Tabs'
import { windowViews } from '../../contract/app-bridge.ts'
import { classNames } from '../components/class-names.ts'
import { overviewWords } from '../words/connection.ts'
import { viewWords } from '../words/services.ts'
import styles from './view-tabs.module.css'

/** From one view of the window to another. */
export function ViewTabs() {
  return (
    <nav className={styles['bar']} aria-label={overviewWords.views}>
      <TabList className={classNames(styles['tabs'])} aria-label={overviewWords.views}>
        {windowViews.map((name) => (
          <Tab key={name} id={name} className={classNames(styles['tab'])}>
            {viewWords[name]}
          </Tab>
        ))}
      </TabList>
    </nav>
  )
}
